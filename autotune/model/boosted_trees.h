// Gradient-boosted trees by XGBoost, trained to order rows or to give a number.
//
// The order's objective is the pairwise logistic loss over all pairs of a group (Burges, "From RankNet to LambdaRank to LambdaMART",
// 2010): no pair is drawn by chance, so training is deterministic.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace kumiko {

// Rows of equal length, one after the other.
struct Rows {
    size_t columns = 0;
    std::vector<float> values;

    size_t size() const { return columns ? values.size() / columns : 0; }
    void add(const std::vector<float> &row); // the first decides the length; throws InternalError for another
};

struct TreeOptions {
    int rounds = 100, depth = 6;
    double rate = 0.1, keep_rows = 1, keep_columns = 1, min_weight = 1, shrink = 1;
    uint64_t seed = 1;
    // Of an order: every pair counts alike, which finds the order of all; or by how much its two differ, and more among the best, which
    // takes fewer rows to find these.
    bool alike = false;
};

class BoostedTrees {
public:
    BoostedTrees();
    ~BoostedTrees();
    BoostedTrees(BoostedTrees &&) noexcept;
    BoostedTrees &operator=(BoostedTrees &&) noexcept;

    bool trained() const { return contents_ != nullptr; }
    size_t columns() const; // of the rows that it learnt from; 0 when untrained

    // Learns to give greater scores to greater qualities, 0 to 1, in each group: groups are consecutive rows, their sizes given.
    // `offsets`, one a row or empty, are scores that others have given: what is learnt is added to them.
    // `before`: trees that stay, and to which trees are added; null: none. Throws UserError if they
    // learnt from rows of another length.
    void order(const Rows &rows, const std::vector<float> &quality, const std::vector<size_t> &groups,
               const std::vector<float> &offsets, const TreeOptions &options, const BoostedTrees *before = nullptr);
    // Learns the number itself, by least squares.
    void fit(const Rows &rows, const std::vector<float> &targets, const TreeOptions &options);

    // Throws UserError when the rows have another length than those learnt from; 0 for each row when untrained.
    std::vector<float> predict(const Rows &rows) const;
    // How much each column adds to the row's score, and last what every row begins with (Lundberg and others, "Consistent
    // individualized feature attribution for tree ensembles", 2018).
    std::vector<float> contributions(const std::vector<float> &row) const;

    // A few named texts go with the trees.
    void set_note(const std::string &name, const std::string &text);
    std::string note(const std::string &name) const; // empty when there is none
    std::string save() const;                        // with a checksum
    // Throws UserError when the bytes are no trees, or not those that were saved.
    static BoostedTrees load(const std::string &bytes, const std::string &document);

private:
    struct Contents;
    std::unique_ptr<Contents> contents_;
};

} // namespace kumiko
