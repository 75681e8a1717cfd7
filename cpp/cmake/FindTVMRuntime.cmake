# TVM's runtime out of the wheels of PyPI: its headers and three small libraries. The compiler of
# 260 MB beside them is not needed.
#
#   TVM_VISION_SITE_PACKAGES   the folder that has tvm and tvm_ffi; else that of python3, or of the
#                              virtual environment .venv beside this folder
if(NOT TVM_VISION_SITE_PACKAGES)
  set(tvm_pythons "${CMAKE_CURRENT_LIST_DIR}/../../.venv/bin/python" python3)
  foreach(python IN LISTS tvm_pythons)
    # Found without importing it: that takes a second.
    execute_process(
      COMMAND ${python} -c "import importlib.util as u, pathlib as p; \
print(p.Path(u.find_spec('tvm').submodule_search_locations[0]).parent)"
      OUTPUT_VARIABLE tvm_site OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
    if(failed EQUAL 0)
      set(TVM_VISION_SITE_PACKAGES "${tvm_site}")
      break()
    endif()
  endforeach()
endif()
set(TVM_VISION_SITE_PACKAGES "${TVM_VISION_SITE_PACKAGES}" CACHE PATH
  "Folder with the packages tvm and tvm_ffi")

set(TVMRuntime_LIBRARY_DIRS
  "${TVM_VISION_SITE_PACKAGES}/tvm/lib" "${TVM_VISION_SITE_PACKAGES}/tvm_ffi/lib")
find_library(TVM_RUNTIME_LIBRARY tvm_runtime PATHS ${TVMRuntime_LIBRARY_DIRS} NO_DEFAULT_PATH)
find_library(TVM_FFI_LIBRARY tvm_ffi PATHS ${TVMRuntime_LIBRARY_DIRS} NO_DEFAULT_PATH)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(TVMRuntime
  REQUIRED_VARS TVM_RUNTIME_LIBRARY TVM_FFI_LIBRARY
  REASON_FAILURE_MESSAGE "the wheels of TVM are needed: pip install apache-tvm apache-tvm-ffi, or \
name their folder by -DTVM_VISION_SITE_PACKAGES=...")

if(TVMRuntime_FOUND AND NOT TARGET TVMRuntime::TVMRuntime)
  add_library(TVMRuntime::TVMRuntime INTERFACE IMPORTED)
  set_target_properties(TVMRuntime::TVMRuntime PROPERTIES
    INTERFACE_SYSTEM_INCLUDE_DIRECTORIES
      "${TVM_VISION_SITE_PACKAGES}/tvm/include;${TVM_VISION_SITE_PACKAGES}/tvm_ffi/include"
    INTERFACE_INCLUDE_DIRECTORIES
      "${TVM_VISION_SITE_PACKAGES}/tvm/include;${TVM_VISION_SITE_PACKAGES}/tvm_ffi/include"
    INTERFACE_LINK_LIBRARIES "${TVM_RUNTIME_LIBRARY};${TVM_FFI_LIBRARY}")
  # Sorts of networks for the processor; opened by name where one is loaded.
  find_library(TVM_RUNTIME_EXTRA_LIBRARY tvm_runtime_extra
    PATHS ${TVMRuntime_LIBRARY_DIRS} NO_DEFAULT_PATH)
  set(TVMRuntime_LIBRARIES "${TVM_RUNTIME_LIBRARY}" "${TVM_FFI_LIBRARY}")
  if(TVM_RUNTIME_EXTRA_LIBRARY)
    list(APPEND TVMRuntime_LIBRARIES "${TVM_RUNTIME_EXTRA_LIBRARY}")
  endif()
endif()
