#include "autotune/model/boosted_trees.h"

#include "support/error.h"
#include "support/hash.h"

#include <cmath>
#include <functional>
#include <limits>
#include <xgboost/c_api.h>

namespace kumiko {

namespace {

void must(int status) {
    if (status == 0) return;
    const std::string text = XGBGetLastError(); // followed by a stack trace
    throw InternalError("XGBoost: " + text.substr(0, text.find('\n')));
}

class Matrix {
public:
    explicit Matrix(const Rows &rows) {
        must(XGDMatrixCreateFromMat(rows.values.data(), rows.size(), rows.columns,
                                    std::numeric_limits<float>::quiet_NaN(), &handle));
    }
    ~Matrix() { XGDMatrixFree(handle); }
    Matrix(const Matrix &) = delete;
    Matrix &operator=(const Matrix &) = delete;

    DMatrixHandle handle = nullptr;
};

// Header of saved trees, followed by a hash of the rest: XGBoost does not detect corrupt trees and
// reads out of bounds.
constexpr std::string_view trees_mark = "kumiko trees 1 ";
constexpr size_t trees_header = trees_mark.size() + 32 + 1;

enum class Kind { Margin = 1, Contributions = 2 };

std::vector<float> predict_with(BoosterHandle booster, const Matrix &matrix, Kind kind) {
    const std::string config = "{\"type\": " + std::to_string(static_cast<int>(kind)) +
                               ", \"training\": false, \"iteration_begin\": 0, \"iteration_end\": 0, "
                               "\"strict_shape\": false}";
    const bst_ulong *shape = nullptr;
    bst_ulong dimensions = 0;
    const float *result = nullptr;
    must(XGBoosterPredictFromDMatrix(booster, matrix.handle, config.c_str(), &shape, &dimensions, &result));
    size_t n = 1;
    for (bst_ulong d = 0; d < dimensions; d++) n *= shape[d];
    return {result, result + n};
}

} // namespace

void Rows::add(const std::vector<float> &row) {
    if (columns == 0) columns = row.size();
    if (row.empty() || row.size() != columns)
        throw InternalError("a row of " + std::to_string(row.size()) + " values among rows of " +
                            std::to_string(columns));
    values.insert(values.end(), row.begin(), row.end());
}

struct BoostedTrees::Contents {
    BoosterHandle handle = nullptr;
    size_t columns = 0;

    Contents() {
        must(XGBoosterCreate(nullptr, 0, &handle));
        quiet();
    }
    // Creates trees to be trained on these rows.
    Contents(const Matrix &matrix, size_t n) : columns(n) {
        must(XGBoosterCreate(&matrix.handle, 1, &handle));
        quiet();
    }
    ~Contents() { XGBoosterFree(handle); }
    Contents(const Contents &) = delete;
    Contents &operator=(const Contents &) = delete;

    void quiet() {
        set("verbosity", "0");
        set("nthread", "1"); // candidates are timed at the same time
    }
    void set(const char *name, const std::string &value) { must(XGBoosterSetParam(handle, name, value.c_str())); }

    // `gradients` receives the current scores and fills in first and second derivatives of the
    // loss.
    void boost(
        const Matrix &matrix, const TreeOptions &o,
        const std::function<void(const std::vector<float> &, std::vector<float> &, std::vector<float> &)> &gradients) {
        set("tree_method", "hist");
        set("max_bin", "64");
        set("max_depth", std::to_string(o.depth));
        set("eta", std::to_string(o.rate));
        set("subsample", std::to_string(o.keep_rows));
        set("colsample_bytree", std::to_string(o.keep_columns));
        set("min_child_weight", std::to_string(o.min_weight));
        set("lambda", std::to_string(o.shrink));
        set("base_score", "0");
        // Unused: derivatives are given, and predictions are margins.
        set("objective", "reg:squarederror");
        set("seed", std::to_string(o.seed));
        bst_ulong n = 0;
        must(XGDMatrixNumRow(matrix.handle, &n));
        std::vector<float> first(n), second(n);
        for (int round = 0; round < o.rounds; round++) {
            gradients(predict_with(handle, matrix, Kind::Margin), first, second);
            must(XGBoosterBoostOneIter(handle, matrix.handle, first.data(), second.data(), n));
        }
    }
};

BoostedTrees::BoostedTrees() = default;
BoostedTrees::~BoostedTrees() = default;
BoostedTrees::BoostedTrees(BoostedTrees &&) noexcept = default;
BoostedTrees &BoostedTrees::operator=(BoostedTrees &&) noexcept = default;

size_t BoostedTrees::columns() const { return contents_ ? contents_->columns : 0; }

void BoostedTrees::order(const Rows &rows, const std::vector<float> &quality, const std::vector<size_t> &groups,
                         const std::vector<float> &offsets, const TreeOptions &options, const BoostedTrees *before) {
    if (before && before->columns() != rows.columns)
        throw UserError("trees trained on rows of " + std::to_string(before->columns()) +
                        " values cannot be trained further on rows of " + std::to_string(rows.columns));
    const Matrix matrix(rows);
    auto contents = std::make_unique<Contents>(matrix, rows.columns);
    if (before) {
        const std::string bytes = before->save().substr(trees_header);
        must(XGBoosterLoadModelFromBuffer(contents->handle, bytes.data(), bytes.size()));
    }
    contents_ = std::move(contents);
    contents_->boost(
        matrix, options, [&](const std::vector<float> &scores, std::vector<float> &first, std::vector<float> &second) {
            std::fill(first.begin(), first.end(), 0.f);
            std::fill(second.begin(), second.end(), 1e-6f);
            size_t begin = 0;
            for (const size_t n : groups) {
                // A group counts alike whatever its size.
                const float scale = n > 1 ? 8.f / static_cast<float>(n - 1) : 0.f;
                for (size_t i = begin; i < begin + n; i++) {
                    const float at_i = scores[i] + (offsets.empty() ? 0.f : offsets[i]);
                    for (size_t j = i + 1; j < begin + n; j++) {
                        const float difference = quality[i] - quality[j];
                        if (std::abs(difference) < 0.01f) continue; // the order is noise
                        const float weight =
                            scale * (options.equal_weights
                                         ? 0.3f
                                         : std::abs(difference) * (0.25f + std::max(quality[i], quality[j])));
                        const float at_j = scores[j] + (offsets.empty() ? 0.f : offsets[j]);
                        const float sign = difference > 0 ? 1.f : -1.f;
                        const float wrong = 1.f / (1.f + std::exp(sign * (at_i - at_j)));
                        first[i] -= sign * weight * wrong;
                        first[j] += sign * weight * wrong;
                        second[i] += weight * wrong * (1 - wrong);
                        second[j] += weight * wrong * (1 - wrong);
                    }
                }
                begin += n;
            }
        });
}

void BoostedTrees::fit(const Rows &rows, const std::vector<float> &targets, const TreeOptions &options) {
    const Matrix matrix(rows);
    contents_ = std::make_unique<Contents>(matrix, rows.columns);
    contents_->boost(matrix, options,
                     [&](const std::vector<float> &scores, std::vector<float> &first, std::vector<float> &second) {
                         for (size_t i = 0; i < scores.size(); i++) {
                             first[i] = scores[i] - targets[i];
                             second[i] = 1;
                         }
                     });
}

std::vector<float> BoostedTrees::predict(const Rows &rows) const {
    if (!contents_ || rows.size() == 0) return std::vector<float>(rows.size(), 0.f);
    if (rows.columns != contents_->columns)
        throw UserError("trees trained on rows of " + std::to_string(contents_->columns) +
                        " values cannot evaluate rows of " + std::to_string(rows.columns));
    return predict_with(contents_->handle, Matrix(rows), Kind::Margin);
}

std::vector<float> BoostedTrees::contributions(const std::vector<float> &row) const {
    if (!contents_) return std::vector<float>(row.size() + 1, 0.f);
    Rows rows;
    rows.add(row);
    return predict_with(contents_->handle, Matrix(rows), Kind::Contributions);
}

void BoostedTrees::set_note(const std::string &name, const std::string &text) {
    if (!contents_) contents_ = std::make_unique<Contents>();
    must(XGBoosterSetAttr(contents_->handle, name.c_str(), text.c_str()));
}

std::string BoostedTrees::note(const std::string &name) const {
    if (!contents_) return "";
    const char *text = nullptr;
    int found = 0;
    must(XGBoosterGetAttr(contents_->handle, name.c_str(), &text, &found));
    return found ? text : "";
}

std::string BoostedTrees::save() const {
    if (!contents_) throw InternalError("untrained trees cannot be saved");
    bst_ulong bytes = 0;
    const char *data = nullptr;
    must(XGBoosterSaveModelToBuffer(contents_->handle, "{\"format\": \"ubj\"}", &bytes, &data));
    const std::string trees(data, bytes);
    return std::string(trees_mark) + hash_hex(trees) + "\n" + trees;
}

BoostedTrees BoostedTrees::load(const std::string &bytes, const std::string &document) {
    if (!bytes.starts_with(trees_mark))
        throw UserError(document + " is not a saved cost model" +
                        (bytes.starts_with("{") ? ", or it is of an earlier Kumiko: train it again" : ""));
    const std::string body = bytes.substr(std::min(trees_header, bytes.size()));
    if (bytes.substr(trees_mark.size(), 33) != hash_hex(body) + "\n")
        throw UserError(document + " is corrupt: its checksum differs");
    BoostedTrees trees;
    trees.contents_ = std::make_unique<Contents>();
    bst_ulong columns = 0;
    if (XGBoosterLoadModelFromBuffer(trees.contents_->handle, body.data(), body.size()) != 0 ||
        XGBoosterGetNumFeature(trees.contents_->handle, &columns) != 0)
        throw UserError(document + " is not a saved cost model");
    trees.contents_->columns = columns;
    trees.contents_->quiet();
    return trees;
}

} // namespace kumiko
