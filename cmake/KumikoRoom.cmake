# kumiko_room(<folder> [C] [HALIDE] [LLVM] [DEPENDS <folder>...])
#
# Makes the static library kumiko_<folder> (slashes become underscores) from the sources in that
# folder and its subfolders (schedules/library is a room of its own). Headers are included from the
# root: "dsl/tensor.h".
add_library(kumiko_options INTERFACE)
target_include_directories(kumiko_options INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(kumiko_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers>
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>    # GCC 12 warns of string
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-stringop-overflow>) # concatenation in its own library
option(KUMIKO_WARNINGS_AS_ERRORS "Treat warnings as errors" OFF)
if(KUMIKO_WARNINGS_AS_ERRORS)
  target_compile_options(kumiko_options INTERFACE -Werror)
endif()
set(KUMIKO_SANITIZE "" CACHE STRING "Comma-separated sanitizers, for example address,undefined")
if(KUMIKO_SANITIZE)
  target_compile_options(kumiko_options INTERFACE -fsanitize=${KUMIKO_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
  # These checks double the code. Null and invalid objects fault anyway, or are found as addresses.
  if(KUMIKO_SANITIZE MATCHES "undefined")
    target_compile_options(kumiko_options INTERFACE
      -fno-sanitize=null,vptr,object-size,pointer-overflow,nonnull-attribute,returns-nonnull-attribute)
  endif()
  target_link_options(kumiko_options INTERFACE -fsanitize=${KUMIKO_SANITIZE})
endif()

# One precompiled header with Halide.h and the standard library; every target that uses Halide
# reuses it.
file(WRITE ${CMAKE_BINARY_DIR}/pch/anchor.cpp "// Anchors the precompiled header.\n")
add_library(kumiko_pch STATIC ${CMAKE_BINARY_DIR}/pch/anchor.cpp)
target_link_libraries(kumiko_pch PUBLIC kumiko_options Halide::Halide nlohmann_json::nlohmann_json fmt::fmt)
target_precompile_headers(kumiko_pch PRIVATE ${CMAKE_SOURCE_DIR}/cmake/precompiled.h)

function(kumiko_uses_halide target)
  target_link_libraries(${target} PUBLIC kumiko_pch)
  target_precompile_headers(${target} REUSE_FROM kumiko_pch)
  get_target_property(type ${target} TYPE)
  # GCC ignores a header precompiled with -fPIC in a file compiled with -fPIE.
  if(type STREQUAL "EXECUTABLE")
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
endfunction()

# Several sources in one translation unit share costs that each would have alone: reading the
# precompiled header, templates instantiated at the end of the unit, and our own headers. For this,
# names in unnamed namespaces are unique within a room.
set(KUMIKO_UNITY 16 CACHE STRING "How many sources of a room are compiled together; 0: each alone")
function(kumiko_unity target)
  if(KUMIKO_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${KUMIKO_UNITY})
  endif()
endfunction()

function(kumiko_room folder)
  cmake_parse_arguments(ROOM "C;HALIDE;LLVM" "" "DEPENDS" ${ARGN})
  string(REPLACE "/" "_" name kumiko_${folder})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.cpp ${CMAKE_SOURCE_DIR}/${folder}/*.c)
  if(folder STREQUAL "schedules")
    list(FILTER sources EXCLUDE REGEX "/schedules/library/")
  endif()
  if(folder STREQUAL "targets/chip")
    # These are rooms of their own, without Halide.
    list(FILTER sources EXCLUDE REGEX "/targets/chip/(layout|micro|move)/")
  endif()
  if(folder STREQUAL "autotune")
    list(FILTER sources EXCLUDE REGEX "/autotune/measurer/") # a room of its own, in C
  endif()
  if(folder STREQUAL "autotune/measurer")
    list(FILTER sources EXCLUDE REGEX "/main.c$")
  endif()
  if(NOT sources)
    add_library(${name} INTERFACE)
    set(scope INTERFACE)
  else()
    add_library(${name} STATIC ${sources})
    set(scope PUBLIC)
    if(NOT ROOM_C)
      kumiko_unity(${name})
    endif()
  endif()
  target_link_libraries(${name} ${scope} kumiko_options nlohmann_json::nlohmann_json fmt::fmt)
  foreach(dep ${ROOM_DEPENDS})
    string(REPLACE "/" "_" dep_name kumiko_${dep})
    target_link_libraries(${name} ${scope} ${dep_name})
  endforeach()
  if(ROOM_HALIDE AND sources)
    kumiko_uses_halide(${name})
  endif()
  if(ROOM_LLVM AND sources)
    target_include_directories(${name} SYSTEM PRIVATE ${LLVM_INCLUDE_DIRS})
    target_link_libraries(${name} PUBLIC LLVM)
  endif()
endfunction()
