/* NVRTC of CUDA 12.9, under the name of 13's. All that is called is the function that says so. */
int nvrtcVersion(int* major, int* minor) {
  *major = 12;
  *minor = 9;
  return 0;
}
#define UNUSED(name) \
  void name(void) {}
UNUSED(nvrtcGetErrorString)
UNUSED(nvrtcGetNumSupportedArchs)
UNUSED(nvrtcGetSupportedArchs)
UNUSED(nvrtcCreateProgram)
UNUSED(nvrtcDestroyProgram)
UNUSED(nvrtcCompileProgram)
UNUSED(nvrtcGetProgramLogSize)
UNUSED(nvrtcGetProgramLog)
UNUSED(nvrtcGetPTXSize)
UNUSED(nvrtcGetPTX)
UNUSED(nvrtcGetCUBINSize)
UNUSED(nvrtcGetCUBIN)
