#include "node/mail.h"

#include <stdlib.h>

struct node_mail *node_mail_new(enum node_mail_kind kind)
{
    struct node_mail *mail = calloc(1, sizeof *mail);
    BASE_ASSERT(mail);
    mail->kind = kind;
    return mail;
}

void node_mail_free(void *mail)
{
    if (mail)
        free(((struct node_mail *)mail)->bytes);
    free(mail);
}
