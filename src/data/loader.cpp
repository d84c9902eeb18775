#include "data/loader.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "data/packing.h"

namespace titan::data {
namespace {

constexpr int kStateVersion = 1;

nlohmann::json to_json(const StreamPosition& p) {
  return {p.epoch,           p.record, p.used, p.start.record, p.start.file, p.start.place.position,
          p.start.place.line};
}

LoaderOptions checked(LoaderOptions options) {
  check(options);
  return options;
}

StreamPosition position_from(const nlohmann::json& json) {
  StreamPosition p;
  p.epoch = json.at(0);
  p.record = json.at(1);
  p.used = json.at(2);
  p.start.record = json.at(3);
  p.start.file = json.at(4);
  p.start.place = {.position = json.at(5), .line = json.at(6)};
  return p;
}

}  // namespace

class Loader::Impl {
 public:
  Impl(LoaderOptions options, const Tokenizer& tokenizer)
      : options_(checked(std::move(options))),
        tokenizer_(tokenizer),
        dataset_(find_dataset(options_.dataset)) {
    num_streams_ = options_.virtual_streams.value_or(options_.global_batch_size);
    corpus_ = std::make_unique<Corpus>(dataset_.files, dataset_.options, options_.cache_bytes);
    tokenizer_fingerprint_ = tokenizer_fingerprint(tokenizer_);
    const auto workers = static_cast<size_t>(options_.prefetch == 0 ? 1 : options_.threads);
    for (size_t i = 0; i < workers; ++i) extractors_.emplace_back(dataset_.options.text_key);
    make_streams();
    count_skipped();
    if (options_.reader == 0) warn_of_missing_marks();
  }
  ~Impl() { stop(); }

  void warn_of_missing_marks() const {
    const bool bos = tokenizer_.bos_id().has_value(), eos = tokenizer_.eos_id().has_value();
    if (!bos && !eos) {
      log::warning(
          "the tokenizer has neither BOS nor EOS: documents are joined without a mark between "
          "them");
    } else if (!bos || !eos) {
      log::warning("the tokenizer has no {}: documents are separated by {} alone",
                   bos ? "EOS" : "BOS", bos ? "BOS" : "EOS");
    }
  }

  std::optional<SampleBatch> next() {
    if (error_) std::rethrow_exception(error_);
    if (finished_) return std::nullopt;
    const Stopwatch waiting;
    if (options_.prefetch == 0) {
      open_batch(batches_);
      fill(0, batches_, pending_.front());
    } else {
      start();
    }
    Pending done = take_front();
    wait_s_ += waiting.seconds();
    if (done.error) {
      error_ = done.error;
      std::rethrow_exception(error_);
    }
    if (done.all_exhausted && done.batch.valid_tokens == 0) {
      // Left-over single tokens are met only now.
      absorb(done);
      finished_ = true;
      return std::nullopt;
    }
    absorb(done);
    ++batches_;
    return std::move(done.batch);
  }

  SampleBatch empty_batch() const {
    const auto n = static_cast<size_t>(options_.local_batch_size * options_.seq_len);
    return {.num_samples = options_.local_batch_size,
            .seq_len = options_.seq_len,
            .inputs = std::vector<int32_t>(n, 0),
            .labels = std::vector<int32_t>(n, kIgnoredLabel),
            .documents = std::vector<int32_t>(n, 0),
            .valid_tokens = 0};
  }

  nlohmann::json state() const {
    if (!finished_ && batches_ % accumulation() != 0) {
      TITAN_CHECK(false, "data state asked for inside a step, after {} of {} micro-batches",
                  batches_ % accumulation(), accumulation());
    }
    const int64_t steps = (batches_ + accumulation() - 1) / accumulation();
    nlohmann::json json = {{"version", kStateVersion},
                           {"virtual_streams", num_streams_},
                           {"samples", first_sample_ + steps * options_.global_batch_size},
                           {"data", hash::hex(corpus_->fingerprint())},
                           {"tokenizer", tokenizer_fingerprint_},
                           {"report", report_.to_json()}};
    auto& streams = json["streams"] = nlohmann::json::object();
    for (const auto& [stream, position] : positions_)
      streams[std::to_string(stream)] = to_json(position);
    return json;
  }

  void restore(const nlohmann::json& state) {
    stop();
    try {
      apply(state);
    } catch (const nlohmann::json::exception& error) {
      throw Error(
          "[data] the checkpoint's data position is damaged: {} — start the data anew with "
          "checkpoint.exclude_from_loading = [\"dataloader\"]",
          error.what());
    }
  }

  void rewind() {
    stop();
    pending_.clear();
    batches_ = 0;
    first_sample_ = 0;
    finished_ = false;
    count_irregularities_ = false;
    make_streams();
  }

  const DataReport& report() const { return report_; }
  double wait_s() const { return wait_s_; }
  int64_t virtual_streams() const { return num_streams_; }
  const Dataset& dataset() const { return dataset_; }

 private:
  // A batch that the workers fill, each the rows of its own streams.
  struct Pending {
    SampleBatch batch;
    std::vector<std::pair<int64_t, StreamPosition>>
        positions;                    // stream of each row and where it stood after the row
    std::vector<DataReport> reports;  // per worker
    size_t missing = 0;               // workers that have not filled it yet
    bool all_exhausted = true;
    std::exception_ptr error;
  };
  struct OwnStream {
    std::unique_ptr<PackedStream> packed;
    size_t worker = 0;
  };

  int64_t accumulation() const {
    return options_.global_batch_size / (options_.local_batch_size * options_.num_readers);
  }
  int64_t stream_of(int64_t batch, int64_t row) const {
    const int64_t share = options_.global_batch_size / options_.num_readers;
    const int64_t sample = first_sample_ + batch / accumulation() * options_.global_batch_size +
                           options_.reader * share +
                           batch % accumulation() * options_.local_batch_size + row;
    return sample % num_streams_;
  }

  void make_streams() {
    streams_.clear();
    positions_.clear();
    const PackingOptions packing{.seq_len = options_.seq_len,
                                 .num_streams = num_streams_,
                                 .num_epochs = options_.num_epochs,
                                 .count_irregularities = count_irregularities_};
    // The streams of a reader repeat after all V streams have given a sample.
    const int64_t period = num_streams_ / options_.global_batch_size * accumulation();
    for (int64_t batch = 0; batch < period; ++batch) {
      for (int64_t row = 0; row < options_.local_batch_size; ++row) {
        const int64_t stream = stream_of(batch, row);
        auto packed = std::make_unique<PackedStream>(stream, packing, *corpus_, tokenizer_);
        positions_.emplace(stream, packed->position());
        const size_t worker = streams_.size() % extractors_.size();
        streams_.emplace(stream, OwnStream{std::move(packed), worker});
      }
    }
  }

  void count_skipped() {
    if (options_.reader != 0) return;
    for (const auto& file : dataset_.skipped) {
      report_.add(Irregularity::kSkippedFile, 1, fmt::format("{}: {}", file.name, file.reason));
    }
  }

  void apply(const nlohmann::json& state) {
    if (state.at("version").get<int>() != kStateVersion) {
      throw Error("[data] the checkpoint's data position has version {}, this titan reads {}",
                  state.at("version").get<int>(), kStateVersion);
    }
    constexpr const char* kAnew =
        "restore it, or start the data anew with checkpoint.exclude_from_loading = "
        "[\"dataloader\"]";
    if (state.at("data").get<std::string>() != hash::hex(corpus_->fingerprint())) {
      throw Error(
          "[data] the checkpoint was made with other data (file names, sizes, text_key or "
          "text_document differ "
          "from {}) — {}",
          dataset_.files[0].path.string(), kAnew);
    }
    if (state.at("tokenizer").get<std::string>() != tokenizer_fingerprint_) {
      throw Error("[data] the checkpoint was made with another tokenizer — {}", kAnew);
    }
    const int64_t num_streams = state.at("virtual_streams");
    if (num_streams <= 0 || num_streams % options_.global_batch_size != 0) {
      throw Error(
          "[data] the checkpoint has {} virtual streams, no multiple of the global batch size {} — "
          "choose a "
          "global batch size that divides {} (a run started with a larger data.virtual_streams "
          "leaves more "
          "choices)",
          num_streams, options_.global_batch_size, num_streams);
    }
    if (options_.virtual_streams && *options_.virtual_streams != num_streams &&
        options_.reader == 0) {
      log::warning("data.virtual_streams={} has no effect: the checkpoint goes on with its {}",
                   *options_.virtual_streams, num_streams);
    }
    num_streams_ = num_streams;
    first_sample_ = state.at("samples");
    batches_ = 0;
    pending_.clear();
    finished_ = false;
    make_streams();
    for (auto& [stream, own] : streams_) {
      const auto found = state.at("streams").find(std::to_string(stream));
      if (found == state.at("streams").end()) {
        throw Error(
            "[data] the checkpoint's data position lacks stream {} of {} — it was saved without "
            "all readers' "
            "states; {}",
            stream, num_streams_, kAnew);
      }
      own.packed->seek(position_from(*found));
      positions_[stream] = own.packed->position();
    }
    report_ = options_.reader == 0 ? DataReport::from_json(state.at("report")) : DataReport{};
    logged_epoch_ = report_.epoch;
  }

  // --- making batches ---

  // REQUIRES mutex_ held where workers run. Adds batches up to `batch`.
  Pending& open_batch(int64_t batch) {
    while (batches_taken_ + static_cast<int64_t>(pending_.size()) <= batch) {
      Pending fresh;
      fresh.batch = empty_batch();
      fresh.positions.resize(static_cast<size_t>(options_.local_batch_size));
      fresh.reports.resize(extractors_.size());
      fresh.missing = extractors_.size();
      pending_.push_back(std::move(fresh));
    }
    return pending_[static_cast<size_t>(batch - batches_taken_)];
  }

  // Fills the rows of one worker. Without the lock: workers write different rows.
  void fill_rows(size_t worker, int64_t batch, Pending& pending, int64_t& valid, bool& exhausted) {
    std::vector<int32_t> sample(static_cast<size_t>(options_.seq_len) + 1);
    std::vector<int32_t> documents(sample.size());
    for (int64_t row = 0; row < options_.local_batch_size; ++row) {
      const int64_t stream = stream_of(batch, row);
      auto& own = streams_.at(stream);
      if (own.worker != worker) continue;
      DataReport& report = pending.reports[worker];
      const int64_t tokens =
          own.packed->next(extractors_[worker], sample.data(), documents.data(), report);
      pending.positions[static_cast<size_t>(row)] = {stream, own.packed->position()};
      if (tokens == 0) continue;
      ++report.samples;
      report.padded_labels += options_.seq_len + 1 - tokens;
      valid += tokens - 1;
      const auto begin = static_cast<std::ptrdiff_t>(row * options_.seq_len);
      std::copy_n(sample.begin(), std::min(tokens, options_.seq_len),
                  pending.batch.inputs.begin() + begin);
      std::copy_n(sample.begin() + 1, tokens - 1, pending.batch.labels.begin() + begin);
      std::fill(documents.begin() + tokens, documents.end(),
                documents[static_cast<size_t>(tokens) - 1] + 1);
      std::copy_n(documents.begin(), options_.seq_len, pending.batch.documents.begin() + begin);
    }
    exhausted = std::ranges::all_of(streams_, [&](const auto& own) {
      return own.second.worker != worker || own.second.packed->exhausted();
    });
  }

  // False when it failed; next() then throws the error.
  bool fill(size_t worker, int64_t batch, Pending& pending) {
    int64_t valid = 0;
    bool exhausted = false;
    std::exception_ptr error;
    try {
      fill_rows(worker, batch, pending, valid, exhausted);
    } catch (...) {  // handed to the training thread by next()
      error = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    pending.batch.valid_tokens += valid;
    pending.all_exhausted = pending.all_exhausted && exhausted;
    if (error) pending.error = error;
    --pending.missing;
    changed_.notify_all();
    return !error;
  }

  void work(size_t worker, int64_t batch) {
    while (true) {
      Pending* pending = nullptr;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock,
                      [&] { return stopping_ || batch < batches_taken_ + options_.prefetch; });
        if (stopping_) return;
        pending = &open_batch(batch);
      }
      if (!fill(worker, batch, *pending)) return;
      ++batch;
    }
  }

  void start() {
    if (!threads_.empty()) return;
    stopping_ = false;
    batches_taken_ = batches_;
    for (size_t i = 0; i < extractors_.size(); ++i) {
      threads_.emplace_back([this, i, first = batches_] { work(i, first); });
    }
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      changed_.notify_all();
    }
    for (auto& thread : threads_) thread.join();
    threads_.clear();
    pending_.clear();
    batches_taken_ = 0;
  }

  Pending take_front() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !pending_.empty() && pending_.front().missing == 0; });
    Pending done = std::move(pending_.front());
    pending_.pop_front();
    ++batches_taken_;
    changed_.notify_all();
    return done;
  }

  void absorb(const Pending& done) {
    for (const auto& [stream, position] : done.positions) positions_[stream] = position;
    for (const auto& report : done.reports) report_ += report;
    // Tiny sets start passes all the time: after the tenth one line per doubling.
    if (options_.reader == 0 && report_.epoch > logged_epoch_ &&
        (report_.epoch < 10 || report_.epoch >= 2 * logged_epoch_)) {
      logged_epoch_ = report_.epoch;
      log::info("dataset {} is being re-looped: pass {} begins after {} samples of this reader",
                dataset_.name, logged_epoch_ + 1, report_.samples);
    }
  }

  LoaderOptions options_;
  const Tokenizer& tokenizer_;
  Dataset dataset_;
  std::string tokenizer_fingerprint_;
  std::unique_ptr<Corpus> corpus_;
  int64_t num_streams_ = 1;
  int64_t first_sample_ = 0;  // of the run, where batch 0 begins
  bool count_irregularities_ = true;

  std::map<int64_t, OwnStream>
      streams_;  // used by the workers; the map itself does not change while they run
  std::vector<TextExtractor> extractors_;  // one per worker

  // The training thread's view: what was handed out.
  int64_t batches_ = 0;
  std::map<int64_t, StreamPosition> positions_;
  DataReport report_;
  int64_t logged_epoch_ = 0;
  double wait_s_ = 0;
  bool finished_ = false;
  std::exception_ptr error_;

  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::deque<Pending> pending_;  // front: batch number batches_taken_
  int64_t batches_taken_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

std::string tokenizer_fingerprint(const Tokenizer& tokenizer) {
  constexpr std::string_view kProbe =
      "The quick brown fox; 0123456789 \xC3\xA9\xE4\xB8\xAD\xF0\x9F\x98\x80\n\tint main() { return "
      "x[3] != 'a'; }  ";
  std::vector<int32_t> ids;
  tokenizer.encode(kProbe, ids);
  hash::Xxh3 hash;
  hash.update({reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(int32_t)});
  hash.update(fmt::format("{} {} {}", tokenizer.vocab_size(), tokenizer.bos_id().value_or(-1),
                          tokenizer.eos_id().value_or(-1)));
  return hash::hex(hash.digest());
}

Loader::Loader(LoaderOptions options, const Tokenizer& tokenizer)
    : impl_(std::make_unique<Impl>(std::move(options), tokenizer)) {}
Loader::~Loader() = default;
std::optional<SampleBatch> Loader::next() { return impl_->next(); }
SampleBatch Loader::empty_batch() const { return impl_->empty_batch(); }
nlohmann::json Loader::state() const { return impl_->state(); }
void Loader::restore(const nlohmann::json& state) { impl_->restore(state); }
void Loader::rewind() { impl_->rewind(); }
const DataReport& Loader::report() const { return impl_->report(); }
double Loader::wait_s() const { return impl_->wait_s(); }
int64_t Loader::virtual_streams() const { return impl_->virtual_streams(); }
const Dataset& Loader::dataset() const { return impl_->dataset(); }

nlohmann::json Loader::merge_states(std::span<const nlohmann::json> states) {
  TITAN_CHECK(!states.empty(), "states of all readers");
  nlohmann::json merged = states[0];
  DataReport report;
  for (const auto& state : states) {
    for (const char* key : {"version", "virtual_streams", "data", "tokenizer"}) {
      TITAN_CHECK(state.at(key) == merged.at(key), "readers agree on {}", key);
    }
    merged["samples"] =
        std::max(merged["samples"].get<int64_t>(), state.at("samples").get<int64_t>());
    merged["streams"].update(state.at("streams"));
    report += DataReport::from_json(state.at("report"));
  }
  merged["report"] = report.to_json();
  return merged;
}

}  // namespace titan::data
