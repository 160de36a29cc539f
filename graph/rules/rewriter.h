// A graph that rules change. It knows the producer and the readers of each value at all times.
#pragma once

#include "graph/infer/fixed_graph.h"

#include <list>
#include <set>
#include <unordered_map>

namespace kumiko::graph {

// A node that enters the graph before another one.
struct NewNode {
    const Node *before;
    Node node;
};

// References to nodes stay valid after their removal, as long as the rewriter lives.
class Rewriter {
public:
    explicit Rewriter(FixedGraph graph);
    // The changed graph, without values that nothing reads. The rewriter is then empty.
    FixedGraph finish();

    std::vector<const Node *> nodes() const; // in order
    bool contains(const Node &node) const { return entry(node).alive; }
    size_t size() const { return nodes_.size(); }
    int64_t bytes_made() const { return bytes_made_; } // of all values that nodes make

    const KnownValue &value(const std::string &name) const { return graph_.value(name); }
    const Extents &extents(const std::string &name) const { return value(name).extents; }
    bool is_output(const std::string &name) const { return outputs_.count(name) > 0; }
    // The elements of an input that is constant; null if it is missing or not constant.
    const Buffer<> *constant(const Node &node, size_t input) const;
    const Node *producer(const std::string &name) const; // null of inputs and constants
    // In order, each once.
    std::vector<const Node *> readers(const std::string &name) const;
    // The node that alone reads the value, by one input; null if there is none, or if the value is
    // an output of the graph.
    const Node *only_reader(const std::string &name) const;
    // The same if the node may read it by several inputs.
    const Node *only_reading_node(const std::string &name) const;
    // Whether one input of one node reads the value, and it is not an output of the graph.
    bool is_read_once(const std::string &name) const;
    bool precedes(const Node &a, const Node &b) const { return entry(a).order < entry(b).order; }

    // A constant of these elements. Its name is "<like>/<suffix>", with a number if another one has
    // that.
    std::string add_constant(const std::string &like, const std::string &suffix, const Buffer<> &value);
    std::string new_name(const std::string &like) const;

    // Removes the nodes `old` and inserts others, which are in an order in which each follows what
    // it reads. Values with readers that the old nodes made must be made by the new ones, with the
    // same type and extents. Nodes whose results nothing reads any more are removed too.
    // Throws InternalError if that does not hold.
    void substitute(const std::vector<const Node *> &old, const std::vector<NewNode> &made);
    void substitute(const Node &old, const Node &made) { substitute({&old}, {{&old, made}}); }

    // Whether all readers of `old` may read `with` instead, which is made earlier: not if both are
    // outputs of the graph, or if `old` is one and `with` is an input or a constant.
    bool can_replace(const std::string &old, const std::string &with) const;
    // Replaces all reads of `old` by reads of `with` if can_replace(), which it returns. If `old`
    // is an output of the graph, `with` gets its name.
    bool replace_value(std::string old, std::string with);

    // Nodes for which a rule may have become applicable since the last call.
    std::vector<const Node *> take_touched();

private:
    struct Entry : Node {
        int64_t order = 0;
        bool alive = true;
        std::list<Entry>::iterator place;
    };
    using Entries = std::list<Entry>;

    static const Entry &entry(const Node &node) { return static_cast<const Entry &>(node); }
    static Entry &entry(const Node *node) { return const_cast<Entry &>(static_cast<const Entry &>(*node)); }

    Entry &insert(Entries::iterator before, const Node &node);
    void number_all();
    void link(Entry &entry);
    void unlink(Entry &entry);
    void infer(const Entry &entry, const std::map<std::string, KnownValue> &before);
    void remove_if_unused(Entry *entry);
    void lose_read(const std::string &name, Entry *reader);
    void touch(const std::string &name);
    void touch(Entry *entry);
    void erase_value(const std::string &name);

    FixedGraph graph_; // without nodes
    Entries nodes_, removed_;
    std::unordered_map<std::string, Entry *> producers_;
    std::unordered_map<std::string, std::vector<Entry *>> readers_; // one for each read
    std::multiset<std::string> outputs_;
    std::vector<const Node *> touched_;
    int64_t bytes_made_ = 0;
};

} // namespace kumiko::graph
