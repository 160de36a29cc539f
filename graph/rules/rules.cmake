# Lists the rules. A file graph/rules/rewrites/<name>.cpp defines the function
# `std::vector<Rule> <name>_rules()`, and is found by pattern. The list is generated for the reasons
# in schedules/primitives.cmake.
file(GLOB rule_files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/graph/rules/rewrites/*.cpp)
set(KUMIKO_RULE_DECLARATIONS "")
set(KUMIKO_RULE_CALLS "")
foreach(file ${rule_files})
  get_filename_component(name ${file} NAME_WE)
  string(APPEND KUMIKO_RULE_DECLARATIONS "std::vector<Rule> ${name}_rules();\n")
  string(APPEND KUMIKO_RULE_CALLS "        ${name}_rules(),\n")
endforeach()
# Written only if the list changes, so that configuring does not rebuild.
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/graph/rule_list.cpp @ONLY CONTENT
"// Made by graph/rules/rules.cmake from the files in graph/rules/rewrites/.
#include \"graph/rules/rule_list.h\"

namespace kumiko::graph {

@KUMIKO_RULE_DECLARATIONS@
std::vector<Rule> rule_list() {
    std::vector<Rule> all;
    for (const std::vector<Rule> &family : {
@KUMIKO_RULE_CALLS@    })
        all.insert(all.end(), family.begin(), family.end());
    return all;
}

} // namespace kumiko::graph
")
target_sources(kumiko_graph_rules PRIVATE ${CMAKE_BINARY_DIR}/graph/rule_list.cpp)
