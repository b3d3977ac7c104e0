#include "node/queue/mail.h"

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
    struct node_mail *m = mail;
    if (!m)
        return;
    if (m->charged)
        atomic_fetch_sub(m->charged, m->n_bytes);
    gossip_graph_drop(m->graph);
    free(m->bytes);
    free(m);
}
