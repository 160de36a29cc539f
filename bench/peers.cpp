#include "bench/peers.h"

#include "support/names.h"

#include <dlfcn.h>

#include <algorithm>
#include <cctype>

// Where the build put the oneDNN module; "" when oneDNN was not there.
#ifndef KUMIKO_PEER_ONEDNN
#define KUMIKO_PEER_ONEDNN ""
#endif

namespace kumiko::bench {

namespace {

// The C interface of BLAS, which is fixed: row-major 101, no transposition 111.
class OpenBlas : public Peer {
public:
    OpenBlas() {
        for (const char *file : {"libopenblas.so.0", "libopenblas.so"}) {
            if ((library_ = dlopen(file, RTLD_NOW | RTLD_LOCAL))) break;
            reason_ = dlerror();
        }
        if (!library_) return;
        sgemm_ = reinterpret_cast<Sgemm>(dlsym(library_, "cblas_sgemm"));
        set_threads_ = reinterpret_cast<SetThreads>(dlsym(library_, "openblas_set_num_threads"));
        auto config = reinterpret_cast<const char *(*)()>(dlsym(library_, "openblas_get_config"));
        if (config) version_ = config();
        if (!available()) reason_ = "libopenblas has no cblas_sgemm or openblas_set_num_threads";
    }
    std::string name() const override { return "OpenBLAS"; }
    // The configuration begins "OpenBLAS 0.3.21 NO_LAPACKE ...".
    std::string version() const override {
        size_t begin = version_.find(' ');
        if (begin == std::string::npos) return version_;
        return version_.substr(begin + 1, version_.find(' ', begin + 1) - begin - 1);
    }
    bool available() const override { return sgemm_ && set_threads_; }
    std::string reason() const override { return available() ? "" : reason_; }

    Result matmul(const MatmulCase &s, const float *a, const float *b, float *c, const PeerOptions &options) override {
        if (!available() || options.prepack_weights) return {};
        PeerKernel kernel;
        kernel.run = [=, sgemm = sgemm_, set_threads = set_threads_, threads = options.threads] {
            set_threads(threads);
            sgemm(101, 111, 111, static_cast<int>(s.m), static_cast<int>(s.n), static_cast<int>(s.k), 1.0f, a,
                  static_cast<int>(s.k), b, static_cast<int>(s.n), 0.0f, c, static_cast<int>(s.n));
        };
        return kernel;
    }

private:
    using Sgemm = void (*)(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *,
                           int);
    using SetThreads = void (*)(int);
    void *library_ = nullptr;
    Sgemm sgemm_ = nullptr;
    SetThreads set_threads_ = nullptr;
    std::string version_, reason_;
};

class Missing : public Peer {
public:
    Missing(std::string name, std::string reason) : name_(std::move(name)), reason_(std::move(reason)) {}
    std::string name() const override { return name_; }
    std::string version() const override { return ""; }
    bool available() const override { return false; }
    std::string reason() const override { return reason_; }

private:
    std::string name_, reason_;
};

std::unique_ptr<Peer> load_onednn() {
    const std::string file = KUMIKO_PEER_ONEDNN;
    if (file.empty()) {
        return std::make_unique<Missing>("oneDNN",
                                         "it was not found when this program was built; ./run setup fetches it");
    }
    void *module = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!module) return std::make_unique<Missing>("oneDNN", dlerror());
    auto make = reinterpret_cast<MakePeer>(dlsym(module, make_peer_symbol));
    if (!make) return std::make_unique<Missing>("oneDNN", file + " is not a module of a peer");
    return std::unique_ptr<Peer>(make());
}

std::string lower(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
    return text;
}

} // namespace

std::vector<Peer *> peers() {
    // The libraries keep threads and cannot be unloaded, so there is one of each in a process, made on first use.
    static OpenBlas *openblas = new OpenBlas;
    static Peer *onednn = load_onednn().release();
    return {openblas, onednn};
}

Peer *find_peer(const std::string &name) {
    for (Peer *peer : peers()) {
        if (lower(peer->name()) == lower(name)) return peer;
    }
    return nullptr;
}

} // namespace kumiko::bench
