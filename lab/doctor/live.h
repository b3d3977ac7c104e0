// What a running node says about its links, in words. Pure: the answer of /status goes in.
#ifndef LAB_DOCTOR_LIVE_H
#define LAB_DOCTOR_LIVE_H

#include "lab/doctor/findings.h"

#include <jansson.h>

// now_s: unix time of this host when the answer came; NAN: do not compare clocks.
void lab_doctor_live(const json_t *status, double now_s, struct lab_findings *findings);

#endif
