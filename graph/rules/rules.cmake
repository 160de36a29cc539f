# Lists the rules. A file graph/rules/rewrites/<name>.cpp defines the function
# `std::vector<Rule> <name>_rules()`, and is found by pattern.
kumiko_records(graph/rules/rewrites "std::vector<Rule> @name@_rules()" KUMIKO_RULE_DECLARATIONS KUMIKO_RULE_CALLS)
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
