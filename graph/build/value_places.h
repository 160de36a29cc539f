// Where the values of a graph are in memory while a program is made. Internal to graph/build.
#pragma once

#include "graph/build/program.h"

#include <map>
#include <set>
#include <tuple>

namespace kumiko::graph {

// The memory of a value, and its buffer; -1: it has none.
struct Place {
    Location location;
    int buffer = -1;
};

// Bytes of a value from `offset` on.
struct ValuePart {
    std::string value;
    int64_t offset = 0;
    bool operator<(const ValuePart &other) const {
        return std::tie(value, offset) < std::tie(other.value, other.offset);
    }
};

// A value of which a step makes each part.
struct JoinedValue {
    struct Part {
        ValuePart input;
        int64_t offset = 0, bytes = 0;
        bool copied = false; // else the input is computed in its place
    };
    std::vector<Part> parts;
};

// The values of a graph, also those that are stored in a second order of axes. Adds buffers and
// constants to a program as they are asked for.
class ValuePlaces {
public:
    // `share`: the inputs of a Concat are stored in its result, and the results of Split and Slice
    // in their input.
    ValuePlaces(Program &program, const FixedGraph &graph, std::vector<Group> groups, const Layouts &layouts,
                bool share);

    // Finds the views and parts that need no step. Before it, places of inputs are set; after it
    // those of outputs; then find_joined() is called.
    void find_views();
    // Finds the concatenations whose inputs are computed in their places.
    void find_joined();

    // With the values in their second orders.
    const FixedGraph &graph() const { return graph_; }
    const std::vector<Group> &groups() const { return groups_; }
    const Layouts &layouts() const { return layouts_; }
    const std::map<std::string, JoinedValue> &joined() const { return joined_; }
    bool needs_step(size_t group) const { return !without_step_.count(group); }
    bool has_place(const std::string &value) const { return locations_.count(value) != 0; }
    bool shares() const { return shares_; } // whether values share memory

    // Of a value that steps make or read.
    Place place(const std::string &value);
    ProgramTensor tensor(const std::string &name) const;
    // The value in its second order.
    static std::string copy_of(const std::string &value);
    // The name of the value in the order in which the group reads it.
    std::string as_read(const std::string &value, size_t group) const;
    // The name of the value in row-major order, in which lists of control flow and outputs have it.
    std::string in_row_major(const std::string &value) const;
    // The memory of a value that may be a view of another one.
    ValuePart root(const std::string &name) const;
    void set_place(const std::string &value, const Place &place);
    // Of a constant, input, output, or value with a buffer in the arena: the index is the buffer's.
    Location location(const std::string &value);
    Location location(const ValuePart &part);
    // The number of the value's buffer; -1 for constants and inputs of the model.
    int buffer_of(const std::string &value);
    // The buffer of a part that is copied.
    int buffer_of_part(const std::string &whole, size_t n);
    // The buffers that steps write to make a value.
    std::vector<int> buffers_to_read(const std::string &value);
    // The value and its views.
    std::vector<std::pair<std::string, ValuePart>> named_parts(const std::string &value);
    // The value of which this is the second order; nullopt if it is none.
    std::optional<std::string> first_order(const std::string &copy) const;
    // It is no part of another value, and not made in parts.
    void keep_whole(const std::string &value) { whole_.insert(value); }

private:
    const Node *only_node(const Group &g) const;
    // Whether channels are last in all that a group of this node reads and makes; nullopt if it
    // differs.
    std::optional<bool> common_order(size_t group, const Node &node) const;
    bool two_orders(const std::string &value) const;
    bool is_state(const std::string &value) const;
    // Views of the group, and parts of its input, need no step. Parts of a state are copied,
    // because the state is replaced.
    void add_views(size_t number);
    // Lists of control flow read and write whole buffers.
    void keep_whole(const Node &control);
    // Computes the inputs of a Concat in their places in its result, if that is possible for one of
    // them. The others are copied.
    void join(size_t number);
    int add_buffer(const std::pair<std::string, size_t> &key, const PlanBuffer &buffer);

    static constexpr size_t whole_value = SIZE_MAX;
    Program &made_;
    FixedGraph graph_;
    const std::vector<Group> groups_;
    Layouts layouts_;
    const bool share_;
    bool shares_ = false;
    std::map<std::string, std::string> copied_from_; // values by the names of their second orders
    std::map<std::string, ValuePart> root_;
    std::map<std::string, std::vector<std::string>> views_; // by their root
    std::set<size_t> without_step_;                         // groups
    std::map<std::string, JoinedValue> joined_;
    std::map<std::string, ValuePart> place_in_;                // of parts of joined values
    std::map<std::string, Location> locations_;                // index: the buffer
    std::map<std::pair<std::string, size_t>, int> buffers_of_; // by value and part
    std::set<std::string> whole_;
};

} // namespace kumiko::graph
