// Free ports on 127.0.0.1, kept for one run.
#ifndef LAB_TERM_PORTS_H
#define LAB_TERM_PORTS_H

#include "base/error.h"
#include <stdint.h>

struct lab_ports {
    size_t count;
    uint16_t *port; // [count], all different
    int *claim;     // [count]
};

// Free for TCP and UDP at the time of the call, and not given to another run in this network namespace until
// they are released: while a run has port 12345, it holds the abstract Unix socket "p2pml-port-12345".
// BASE_EIO, BASE_ENOMEM.
enum base_error lab_ports_claim(size_t count, struct lab_ports *ports, struct base_reason *why) BASE_CHECK;
void lab_ports_release(struct lab_ports *ports); // empty ones too

#endif
