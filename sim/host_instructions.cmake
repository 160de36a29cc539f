# The kernels are compiled once for each host instruction set and selected at run time. None may
# contract a product and a sum, so that all produce the same bits. The simulator's speed depends on
# them, so they are optimised in every build. With sanitizers, whose checks are most of the code,
# -O3 takes three times as long to compile as -O1.
if(KUMIKO_SANITIZE)
  set(kernel_options -O1)
else()
  set(kernel_options -O3)
endif()
list(APPEND kernel_options -ffp-contract=off -fno-math-errno -fno-trapping-math)
set_source_files_properties(${CMAKE_SOURCE_DIR}/sim/kernels/baseline.cpp PROPERTIES COMPILE_OPTIONS "${kernel_options}")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set_source_files_properties(${CMAKE_SOURCE_DIR}/sim/kernels/avx2.cpp PROPERTIES
    COMPILE_OPTIONS "${kernel_options};-mavx2;-mfma;-mf16c")
  set_source_files_properties(${CMAKE_SOURCE_DIR}/sim/kernels/avx512.cpp PROPERTIES
    COMPILE_OPTIONS "${kernel_options};-mavx2;-mfma;-mf16c;-mavx512f;-mavx512bw;-mavx512vl;-mavx512dq;-mprefer-vector-width=512;-Wno-uninitialized")
endif()

# The configurations go into the library as text.
set(built_in "")
foreach(name small medium full)
  set(file ${CMAKE_SOURCE_DIR}/sim/configs/${name}.json)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(READ ${file} text)
  string(APPEND built_in "    {\"${name}\", R\"json(${text})json\"},\n")
endforeach()
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/embedded/configs.cpp CONTENT
"// Made from sim/configs/.
#include \"sim/built_in.h\"

namespace kumiko::sim {
const std::vector<std::pair<std::string, std::string>> &built_in_configs() {
    static const std::vector<std::pair<std::string, std::string>> all = {
${built_in}    };
    return all;
}
} // namespace kumiko::sim
" @ONLY)
target_sources(kumiko_sim PRIVATE ${CMAKE_BINARY_DIR}/embedded/configs.cpp)
