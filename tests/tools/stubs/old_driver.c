/* NVIDIA's driver library of CUDA 12.2, as far as a program asks before it sees that this is old. */
int cuDriverGetVersion(int* version) {
  *version = 12020;
  return 0;
}
