# Writes OUTPUT from TEMPLATE, with @hash@: that of the files below ROOT that LIST (a file) names.
file(STRINGS ${LIST} files)
foreach(file ${files})
  file(SHA256 ${ROOT}/${file} one)
  string(APPEND all "${file} ${one}\n")
endforeach()
string(SHA256 hash "${all}")
string(SUBSTRING ${hash} 0 16 hash)
configure_file(${TEMPLATE} ${OUTPUT} @ONLY)
