#include "bench/plot.h"

#include "support/html.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <iterator>

namespace kumiko::bench {

namespace {

constexpr double line = 20, top = 58, right = 30, width = 900, letter = 7;
const char *const blue = "#9dbbe0", *const grey = "#8a8a8a", *const pale = "#e4e4e4", *const ink = "#222222";

// A mark for each peer, distinguishable without colour.
struct Mark {
    const char *colour, *shape; // shape: around (0, 0)
};
const Mark marks[] = {{"#c8511b", "M-4,-4H4V4H-4Z"},
                      {"#2a8a4a", "M0,-5L5,4H-5Z"},
                      {"#8a3ab9", "M0,-5.5L5.5,0L0,5.5L-5.5,0Z"},
                      {"#b8860b", "M-5,-4H5L0,5Z"},
                      {"#c2185b", "M-4.5,0A4.5,4.5 0 1 0 4.5,0A4.5,4.5 0 1 0 -4.5,0Z"},
                      {"#00838f", "M-5,-2H-2V-5H2V-2H5V2H2V5H-2V2H-5Z"},
                      {"#5d4037", "M-5,-5L0,-2L5,-5L2,0L5,5L0,2L-5,5L-2,0Z"}};

// A peer has the same mark in all plots.
const Mark &mark_of(const std::string &peer) {
    static const char *const known[] = {"OpenBLAS", "MKL", "oneDNN", "LIBXSMM", "ONNX Runtime"};
    for (size_t i = 0; i < std::size(known); i++) {
        if (peer == known[i]) return marks[i];
    }
    // Other forms of a peer; other peers.
    return marks[peer.starts_with("oneDNN") || peer.starts_with("ONNX") ? 5 : 6];
}

std::vector<std::string> peers_of(const std::vector<BenchRow> &rows) {
    std::vector<std::string> names;
    for (const BenchRow &r : rows) {
        for (const auto &[name, rate] : r.peers) {
            if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
        }
    }
    std::sort(names.begin(), names.end());
    return names;
}

// Maps rates to coordinates.
class Scale {
public:
    Scale(const std::vector<BenchRow> &rows, double left) : left_(left) {
        low_ = 1e300;
        for (const BenchRow &r : rows) {
            for (const auto &[name, rate] : r.peers) take(rate);
            take(r.ours);
            take(r.peak);
        }
        logarithmic_ = high_ / low_ > 100;
        low_ = logarithmic_ ? std::pow(10, std::floor(std::log10(low_))) : 0;
        high_ *= 1.04;
    }
    double x(double rate) const {
        const double share =
            logarithmic_ ? std::log(std::max(rate, low_) / low_) / std::log(high_ / low_) : rate / high_;
        return left_ + share * (width - right - left_);
    }
    std::vector<double> ticks() const {
        std::vector<double> at;
        if (logarithmic_) {
            for (double t = low_; t <= high_; t *= 10) at.push_back(t);
            return at;
        }
        const double rough = high_ / 6, power = std::pow(10, std::floor(std::log10(rough)));
        const double step = rough / power > 5 ? 10 * power : rough / power > 2 ? 5 * power : 2 * power;
        for (double t = 0; t <= high_; t += step) at.push_back(t);
        return at;
    }

private:
    double left_, low_, high_ = 0;
    bool logarithmic_ = false;
    void take(double rate) {
        if (rate <= 0) return;
        low_ = std::min(low_, rate), high_ = std::max(high_, rate);
    }
};

std::string label(const BenchRow &r, bool threads) {
    return threads ? fmt::format("{}, {} thread{}", r.name, r.threads, r.threads == 1 ? "" : "s") : r.name;
}

std::string text(double x, double y, const std::string &what, const char *anchor = "start", const char *colour = ink) {
    return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" fill=\"{}\">{}</text>\n", x, y, anchor,
                       colour, html_escaped(what));
}

std::string mark(const Mark &m, double x, double y) {
    return fmt::format("<path transform=\"translate({:.1f},{:.1f})\" d=\"{}\" fill=\"{}\"/>\n", x, y, m.shape,
                       m.colour);
}

std::string legend(const std::vector<std::string> &peers, bool peak) {
    std::string svg;
    double x = 14;
    const auto place = [&](const std::string &sign, const std::string &name) {
        svg += sign + text(x + 16, 40, name);
        x += 34 + letter * static_cast<double>(name.size());
    };
    place(fmt::format("<rect x=\"{:.1f}\" y=\"30\" width=\"12\" height=\"11\" fill=\"{}\"/>\n", x, blue), "Kumiko");
    for (size_t i = 0; i < peers.size(); i++) place(mark(mark_of(peers[i]), x + 6, 36), peers[i]);
    if (peak)
        place(fmt::format("<path d=\"M{0:.1f},29V43\" stroke=\"{1}\" stroke-width=\"2\"/>\n", x + 6, grey),
              "the machine");
    return svg;
}

} // namespace

std::string plot_svg(const std::vector<BenchRow> &rows) {
    const std::vector<std::string> peers = peers_of(rows);
    bool threads = false, peak = false;
    size_t longest = 0;
    std::string units;
    for (const BenchRow &r : rows) {
        threads = threads || r.threads != rows[0].threads;
        peak = peak || r.peak > 0;
        if (units.find(r.unit) == std::string::npos) units += (units.empty() ? "" : ", ") + r.unit;
    }
    for (const BenchRow &r : rows) longest = std::max(longest, label(r, threads).size());
    const double left = 20 + letter * static_cast<double>(longest),
                 bottom = top + line * static_cast<double>(rows.size());
    const Scale scale(rows, left);

    std::string svg = fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
                                  "height=\"{1}\" font-family=\"sans-serif\" font-size=\"12\">\n"
                                  "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
                                  width, bottom + 34);
    svg += text(14, 20,
                rows[0].suite + ", " + units +
                    (threads ? "" : fmt::format(", {} thread{}", rows[0].threads, rows[0].threads == 1 ? "" : "s")));
    svg += legend(peers, peak);
    for (double t : scale.ticks()) {
        svg += fmt::format("<path d=\"M{0:.1f},{1}V{2:.1f}\" stroke=\"{3}\"/>\n", scale.x(t), top - 4, bottom, pale);
        svg += text(scale.x(t), bottom + 16, fmt::format("{:g}", t), "middle", grey);
    }
    for (size_t i = 0; i < rows.size(); i++) {
        const BenchRow &r = rows[i];
        const double y = top + line * (static_cast<double>(i) + 0.5);
        svg += text(left - 8, y + 4, label(r, threads), "end");
        if (r.ours > 0)
            svg += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"12\" fill=\"{}\"/>\n", left,
                               y - 6, std::max(scale.x(r.ours) - left, 0.5), blue);
        if (r.peak > 0)
            svg += fmt::format("<path d=\"M{0:.1f},{1:.1f}V{2:.1f}\" stroke=\"{3}\" stroke-width=\"2\"/>\n",
                               scale.x(r.peak), y - 8, y + 8, grey);
        for (size_t p = 0; p < peers.size(); p++) {
            const auto found = r.peers.find(peers[p]);
            if (found != r.peers.end()) svg += mark(mark_of(peers[p]), scale.x(found->second), y);
        }
    }
    return svg + "</svg>\n";
}

} // namespace kumiko::bench
