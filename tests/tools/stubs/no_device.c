/* NVIDIA's driver library where no GPU can be seen. */
enum { kNoDevice = 100 };
int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}
int cuInit(unsigned flags) {
  (void)flags;
  return kNoDevice;
}
