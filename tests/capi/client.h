/* A client in C. */
#ifndef RNNC_TESTS_CAPI_CLIENT_H
#define RNNC_TESTS_CAPI_CLIENT_H

#ifdef __cplusplus
extern "C" {
#endif

/* Runs h[t] = w x[t] + h[t-1] / 2 forward and backward, T 3, B 2, H 2, x = 1, 2, …, 12, w = 2, -1, in
 * float64, with ones as the gradients of the outputs. [T, B, H] and [H]. A status. */
int run_client(double* outputs, double* weight_gradients);

#ifdef __cplusplus
}
#endif
#endif
