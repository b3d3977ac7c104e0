// Outer momentum, quasi-global (DESIGN: rounds): x = x0 - (delta + mu*V); exchange;
// V = mu*V + (1-mu)*(x0 - x_new). Pure functions over vectors of d floats.
#ifndef NODE_LEARN_MOMENTUM_H
#define NODE_LEARN_MOMENTUM_H

#include <stddef.h>

// At the end of the local steps, delta = x0 - x: x -= mu*V.
void node_momentum_before(float mu, size_t d, const float *v, float *x);
// After the exchange; x0 becomes that of the next round.
void node_momentum_after(float mu, size_t d, const float *x, float *x0, float *v);

#endif
