#include "node/learn/distance.h"

#include "base/error.h"

#include <math.h>
#include <stdbool.h>

static void end_window(struct node_distance *distance)
{
    const double mean = distance->sum / NODE_DISTANCE_WINDOW;
    const bool apart =
        distance->before > 0 && mean > NODE_DISTANCE_BOUND && mean > NODE_DISTANCE_FALLS * distance->before;

    distance->apart = apart ? distance->apart + 1 : 0;
    if (distance->apart == NODE_DISTANCE_WINDOWS && distance->stays <= 0)
        distance->stays = mean;
    distance->before = mean;
    distance->sum = 0;
    distance->noted = 0;
}

void node_distance_note(struct node_distance *distance, uint64_t exchanges, double consensus)
{
    BASE_ASSERT(distance->noted < NODE_DISTANCE_WINDOW);
    if (exchanges == distance->exchanges || !isfinite(consensus))
        return;
    distance->exchanges = exchanges;
    distance->sum += consensus;
    if (++distance->noted == NODE_DISTANCE_WINDOW)
        end_window(distance);
}
