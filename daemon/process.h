// What p2pml-node asks of the system for its process: descriptors, and what signals do until the loop handles
// them. Called by its main thread, while there is no other.
#ifndef DAEMON_PROCESS_H
#define DAEMON_PROCESS_H

#include "base/error.h"

#include <stdbool.h>

// Raises the limit of descriptors as far as it may, and ignores signals by which a stray program or a closed
// pipe would end a training. SIGHUP is ignored until the loop handles it.
void daemon_process_prepare(void);
// BASE_ELIMIT: not even a node with a few peers could open its sockets and files.
enum base_error daemon_process_check(struct base_reason *why) BASE_CHECK;

// From now on SIGTERM and SIGINT end the process at once with status 0: nothing is lost before the first
// step, and files are replaced whole.
void daemon_process_end_on_signal(void);
// The loop takes over the signals. One that this file still receives has its default effect.
void daemon_process_begun(void);
// The node has left and its last checkpoint is written: a signal changes nothing any more.
void daemon_process_over(void);

#endif
