// What a program does before anything else. Its main thread, while there is no other.
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

// Opens /dev/null as each of stdin, stdout and stderr that is closed: else the next file or socket gets the
// number 2, and log lines are written into it. Gives later threads a stack on which a product of matrices
// fits, however small the limit (ulimit -s) is, and the main thread as much as the limit's maximum allows.
void base_process_begin(void);

#endif
