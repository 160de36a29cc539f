// How the chip's compiler packs operations into words.
#pragma once

namespace kumiko {

// How operations become words. All but Full are baselines for comparison.
enum class Packing {
    Full,
    // Each operation gets a word of its own, the first free one once its operands are ready.
    OneAWord,
    Naive, // like OneAWord, in program order, waiting for every move at once
    // No words are generated: operations are counted, and the time of their data flow (tally.h).
    Counted
};

} // namespace kumiko
