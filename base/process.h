// What a program does before anything else. Main thread, while there are no other threads.
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

// Opens /dev/null in place of each of stdin, stdout and stderr that is closed. Otherwise the next file or
// socket would get the number 2, and log lines would be written into it. Gives later threads a stack that is
// large enough for a product of matrices, however small the limit (ulimit -s) is. The main thread gets the
// same, as far as the hard limit allows.
void base_process_begin(void);

#endif
