#include "lab/doctor/doctor.h"

#include "base/limits.h"
#include "lab/doctor/live.h"
#include "lab/top/fetch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// A node on this host has the same clock.
static bool is_here(const char *address)
{
    char host[LIMIT_HOST_BYTES];
    uint16_t port;
    struct base_reason why;
    return !node_address_parse(address, host, &port, &why) && node_address_is_loopback(host);
}

enum base_error lab_doctor_node(const char *address, const char *cluster, struct lab_findings *findings,
                                struct base_reason *why)
{
    char *text = lab_top_get(address, "/status");
    json_t *status = text ? json_loads(text, JSON_REJECT_DUPLICATES, NULL) : NULL;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    free(text);
    if (!json_is_array(json_object_get(status, "members"))) {
        json_decref(status);
        return base_fail(
            why, BASE_EIO,
            "no p2pml-node answers at %s; expected the address of the page of a running node "
            "(node.http, 127.0.0.1:7480 unless set). For a node that does not run, give its configuration",
            address);
    }
    const char *of = json_string_value(json_object_get(status, "cluster"));
    if (cluster && (!of || strcmp(cluster, of) != 0)) {
        json_decref(status);
        return base_fail(why, BASE_EMISMATCH, "the node at %s is of another cluster", address);
    }
    lab_doctor_live(status, is_here(address) ? (double)NAN : (double)now.tv_sec + 1e-9 * (double)now.tv_nsec,
                    findings);
    json_decref(status);
    return BASE_OK;
}
