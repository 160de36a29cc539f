# Files that `cmake --install` installs:
#   bin/kumiko, bin/kumiko_measurer
#   include/kumiko/            every room's headers, and kumiko.h, which includes what most programs
#                              need
#   lib/libkumiko.so           every room
#   lib/cmake/Kumiko/          find_package(Kumiko): Kumiko::kumiko, and Kumiko::ops for shared
#                              objects with ops
#   lib/pkgconfig/             kumiko, kumiko-ops
# Halide's library is installed into lib/kumiko/ if it is the SDK that `./run setup` unpacked, which
# is on no system path. Its headers are always installed into include/kumiko/halide/. LLVM, SQLite,
# XGBoost, hiredis, fmt, nlohmann-json and Boost are the system's.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(rooms graph/report graph/build graph/rules graph/fuse graph/infer graph/eval graph/formulas graph/onnx graph/ir
          graph/plan driver autotune autotune/measurer targets/chip targets/chip/move targets/chip/micro
          targets/chip/layout targets/halide targets/cpu targets/lower schedules/library schedules ops machine dsl sim runtime support)
add_library(kumiko_shared SHARED ${CMAKE_BINARY_DIR}/pch/anchor.cpp)
set(archives)
foreach(room ${rooms})
  string(REPLACE "/" "_" name kumiko_${room})
  list(APPEND archives ${name})
  if(NOT room MATCHES "/")
    install(DIRECTORY ${CMAKE_SOURCE_DIR}/${room} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/kumiko
            FILES_MATCHING PATTERN "*.h" PATTERN "*.def")
  endif()
endforeach()
target_link_libraries(kumiko_shared PRIVATE ${archives})
list(JOIN archives "," archives)
set_target_properties(kumiko_shared PROPERTIES OUTPUT_NAME kumiko LINK_LIBRARY_OVERRIDE "WHOLE_ARCHIVE,${archives}"
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
install(TARGETS kumiko_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/targets DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/kumiko
        FILES_MATCHING PATTERN "*.h")
# Without the headers that show ONNX's library.
install(DIRECTORY ${CMAKE_SOURCE_DIR}/graph DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/kumiko
        FILES_MATCHING PATTERN "*.h" PATTERN "proto.h" EXCLUDE PATTERN "decode.h" EXCLUDE)
install(FILES ${CMAKE_SOURCE_DIR}/cmake/kumiko.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/kumiko)
install(TARGETS kumiko kumiko_measurer RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

file(REAL_PATH ${HALIDE_LIBRARY} halide_file)
file(REAL_PATH ${KUMIKO_DEPS} deps_folder)
cmake_path(IS_PREFIX deps_folder ${halide_file} bundle_halide)
# Halide.h in two parts (cmake/split_halide.py), and the SDK's other headers that programs may
# include.
install(FILES ${HALIDE_SPLIT_DIR}/Halide.h ${HALIDE_SPLIT_DIR}/HalideCore.h ${HALIDE_INCLUDE_DIR}/HalideBuffer.h
              ${HALIDE_INCLUDE_DIR}/HalideRuntime.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/kumiko/halide)
set(KUMIKO_HALIDE_INCLUDE "@PACKAGE_PREFIX@/${CMAKE_INSTALL_INCLUDEDIR}/kumiko/halide")
if(bundle_halide)
  install(FILES ${HALIDE_LIBRARY} DESTINATION ${CMAKE_INSTALL_LIBDIR}/kumiko)
  set(KUMIKO_HALIDE_LIBRARY "@PACKAGE_PREFIX@/${CMAKE_INSTALL_LIBDIR}/kumiko/libHalide.so")
  set_target_properties(kumiko PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}/kumiko;${LLVM_LIBRARY_DIR}")
  set_target_properties(kumiko_shared PROPERTIES INSTALL_RPATH "$ORIGIN/kumiko;${LLVM_LIBRARY_DIR}")
else()
  set(KUMIKO_HALIDE_LIBRARY ${HALIDE_LIBRARY})
  get_filename_component(halide_folder ${HALIDE_LIBRARY} DIRECTORY)
  set_target_properties(kumiko kumiko_shared PROPERTIES INSTALL_RPATH "${halide_folder};${LLVM_LIBRARY_DIR}")
endif()

# Both forms of the package name the prefix in their own way.
function(kumiko_package_file template prefix result destination)
  foreach(what LIBRARY INCLUDE)
    string(REPLACE "@PACKAGE_PREFIX@" "${prefix}" KUMIKO_HALIDE_${what} "${KUMIKO_HALIDE_${what}}")
  endforeach()
  configure_file(${CMAKE_SOURCE_DIR}/cmake/${template} ${CMAKE_BINARY_DIR}/package/${result} @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/package/${result} DESTINATION ${CMAKE_INSTALL_LIBDIR}/${destination})
endfunction()
string(REGEX REPLACE "[^/]+" ".." KUMIKO_UP "${CMAKE_INSTALL_LIBDIR}/cmake/Kumiko")
kumiko_package_file(KumikoConfig.cmake.in "\${KUMIKO_PREFIX}" KumikoConfig.cmake cmake/Kumiko)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/package/KumikoConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/package/KumikoConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Kumiko)

string(REGEX REPLACE "[^/]+" ".." KUMIKO_UP "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
kumiko_package_file(kumiko.pc.in "\${prefix}" kumiko.pc pkgconfig)
kumiko_package_file(kumiko-ops.pc.in "\${prefix}" kumiko-ops.pc pkgconfig)
