// Gradient-boosted trees with XGBoost, for ranking or regression.
//
// Ranking uses the pairwise logistic loss over all pairs of a group (Burges, "From RankNet to
// LambdaRank to LambdaMART", 2010). Pairs are not sampled, so training is deterministic.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace kumiko {

// Rows of equal length, stored contiguously.
struct Rows {
    size_t columns = 0;
    std::vector<float> values;

    size_t size() const { return columns ? values.size() / columns : 0; }
    // The first row sets the length; throws InternalError for others.
    void add(const std::vector<float> &row);
};

struct TreeOptions {
    int rounds = 100; // one tree each
    int depth = 6;
    double rate = 0.1; // learning rate
    // Fractions of the rows and columns that a tree is trained on.
    double keep_rows = 1, keep_columns = 1;
    double min_weight = 1; // XGBoost's min_child_weight
    double shrink = 1;     // XGBoost's lambda, the L2 regularisation
    uint64_t seed = 1;
    // For ranking. True: all pairs have equal weight, which optimises the whole order. False: the
    // weight grows with the difference in quality and with the quality itself, so that fewer rows
    // suffice to find the best.
    bool equal_weights = false;
};

class BoostedTrees {
public:
    BoostedTrees();
    ~BoostedTrees();
    BoostedTrees(BoostedTrees &&) noexcept;
    BoostedTrees &operator=(BoostedTrees &&) noexcept;

    bool trained() const { return contents_ != nullptr; }
    size_t columns() const; // of the training rows; 0 if untrained

    // Trains a ranking: in each group, higher scores for higher qualities (0 to 1). Groups are
    // consecutive rows with the given sizes. `offsets`, one per row or empty: initial scores that
    // the trees add to. `before`: existing trees that are kept and extended; may be null. Throws
    // UserError if they were trained on rows of another length.
    void order(const Rows &rows, const std::vector<float> &quality, const std::vector<size_t> &groups,
               const std::vector<float> &offsets, const TreeOptions &options, const BoostedTrees *before = nullptr);
    // Trains a regression by least squares.
    void fit(const Rows &rows, const std::vector<float> &targets, const TreeOptions &options);

    // Throws UserError if the rows have another length than the training rows. Returns 0 for each
    // row if untrained.
    std::vector<float> predict(const Rows &rows) const;
    // The contribution of each column to the row's score, and last the bias (Lundberg and others,
    // "Consistent individualized feature attribution for tree ensembles", 2018).
    std::vector<float> contributions(const std::vector<float> &row) const;

    // Named texts saved with the trees.
    void set_note(const std::string &name, const std::string &text);
    std::string note(const std::string &name) const; // "" if there is none
    std::string save() const;                        // with a checksum
    // Throws UserError if the bytes are not saved trees or are corrupt.
    static BoostedTrees load(const std::string &bytes, const std::string &document);

private:
    struct Contents;
    std::unique_ptr<Contents> contents_;
};

} // namespace kumiko
