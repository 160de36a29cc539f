# Finds the libraries: Debian packages, and the Halide SDK and oneDNN, which `./run setup` unpacks
# into .deps/.
find_package(Threads REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(fmt REQUIRED)
find_package(CLI11 REQUIRED)
find_package(SQLite3 REQUIRED)
# Debian's package for CMake names a program that it does not bring.
find_library(XGBOOST_LIBRARY xgboost REQUIRED)
find_path(XGBOOST_INCLUDE_DIR xgboost/c_api.h REQUIRED)
find_library(HIREDIS_LIBRARY hiredis REQUIRED)
find_path(HIREDIS_INCLUDE_DIR hiredis/hiredis.h REQUIRED)
find_package(Boost REQUIRED)
find_package(doctest REQUIRED)
find_package(LLVM 19.1 REQUIRED CONFIG HINTS /usr/lib/llvm-19/lib/cmake/llvm)

set(KUMIKO_DEPS ${CMAKE_SOURCE_DIR}/.deps CACHE PATH "Where `./run setup` put the Halide SDK and the peers")
find_path(HALIDE_INCLUDE_DIR Halide.h HINTS ${KUMIKO_DEPS}/halide/include REQUIRED)
# Halide.h in two parts: programs read HalideCore.h alone.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
set(HALIDE_SPLIT_DIR ${CMAKE_BINARY_DIR}/halide)
execute_process(COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/cmake/split_halide.py ${HALIDE_INCLUDE_DIR} ${HALIDE_SPLIT_DIR}
                COMMAND_ERROR_IS_FATAL ANY)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/split_halide.py)
find_library(HALIDE_LIBRARY Halide HINTS ${KUMIKO_DEPS}/halide/lib64 REQUIRED)
add_library(Halide::Halide SHARED IMPORTED GLOBAL)
set_target_properties(Halide::Halide PROPERTIES
  IMPORTED_LOCATION ${HALIDE_LIBRARY}
  INTERFACE_INCLUDE_DIRECTORIES "${HALIDE_SPLIT_DIR};${HALIDE_INCLUDE_DIR}"
  INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${HALIDE_SPLIT_DIR};${HALIDE_INCLUDE_DIR}")

# ONNX's own C++ library, which `./run setup` compiles from its wheel. Only graph/onnx sees it.
find_path(ONNX_INCLUDE_DIR onnx/checker.h HINTS ${KUMIKO_DEPS}/onnx-library/include NO_DEFAULT_PATH REQUIRED)
find_library(ONNX_LIBRARY kumiko_onnx HINTS ${KUMIKO_DEPS}/onnx-library/lib NO_DEFAULT_PATH REQUIRED)
find_library(PROTOBUF_LITE protobuf-lite REQUIRED)
add_library(Onnx::Onnx STATIC IMPORTED GLOBAL)
set_target_properties(Onnx::Onnx PROPERTIES
  IMPORTED_LOCATION ${ONNX_LIBRARY}
  INTERFACE_INCLUDE_DIRECTORIES ${ONNX_INCLUDE_DIR}
  INTERFACE_SYSTEM_INCLUDE_DIRECTORIES ${ONNX_INCLUDE_DIR}
  INTERFACE_COMPILE_DEFINITIONS "ONNX_NAMESPACE=kumiko_onnx;ONNX_ML=1;ONNX_USE_LITE_PROTO=1"
  # Operators register themselves.
  INTERFACE_LINK_LIBRARIES "$<LINK_LIBRARY:WHOLE_ARCHIVE,${ONNX_LIBRARY}>;${PROTOBUF_LITE}")

# Peers for the benchmarks; a missing one is a line in the report, never a failure.
find_library(OPENBLAS_LIBRARY openblas)
find_path(ONEDNN_INCLUDE_DIR dnnl.hpp HINTS ${KUMIKO_DEPS}/onednn/include)
find_library(ONEDNN_LIBRARY NAMES dnnl HINTS ${KUMIKO_DEPS}/onednn/lib)
find_path(LIBXSMM_INCLUDE_DIR libxsmm.h)
find_library(LIBXSMM_LIBRARY xsmm)
find_library(LIBXSMM_NOBLAS_LIBRARY xsmmnoblas)
find_path(XNNPACK_INCLUDE_DIR xnnpack.h)
find_path(PTHREADPOOL_INCLUDE_DIR pthreadpool.h)
find_library(XNNPACK_LIBRARY XNNPACK)
find_library(PTHREADPOOL_LIBRARY pthreadpool)

# Quick builds: ccache and mold where they are installed.
find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
if(CCACHE)
  add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>)
endif()
find_program(MOLD mold)
if(MOLD)
  add_link_options(-fuse-ld=mold)
endif()
