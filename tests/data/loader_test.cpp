#include "data/loader.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "base/error.h"
#include "data/fixtures.h"

namespace titan::data {
namespace {

using testing::ByteTokenizer;
using testing::Folder;
using testing::options_for;

// Documents of very different length, so that streams drift apart.
std::string many_lines(int count, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += "d" + std::to_string(i) + ":";
    const auto length = random() % 7 == 0 ? random() % 300 : random() % 20;
    for (unsigned j = 0; j < length; ++j) text += static_cast<char>('a' + (i + j) % 26);
    text += '\n';
  }
  return text;
}

using Sample = std::vector<int32_t>;

// The readers of a run, stepped together as data-parallel training does.
class Readers {
 public:
  Readers(LoaderOptions options, int64_t readers) : options_(std::move(options)) {
    for (int64_t reader = 0; reader < readers; ++reader) {
      options_.reader = reader;
      options_.num_readers = readers;
      loaders_.push_back(std::make_unique<Loader>(options_, tokenizer_));
    }
  }

  // All samples of a step in the order of the run (inputs, labels, documents); empty when every
  // reader is through.
  std::vector<Sample> step() {
    const int64_t micro = options_.global_batch_size / options_.local_batch_size /
                          static_cast<int64_t>(loaders_.size());
    std::vector<Sample> samples;
    bool any = false;
    for (auto& loader : loaders_) {
      for (int64_t m = 0; m < micro; ++m) {
        auto batch = loader->next();
        any = any || batch;
        if (!batch) batch = loader->empty_batch();
        for (int64_t row = 0; row < batch->num_samples; ++row) {
          const auto begin = row * batch->seq_len;
          Sample sample(batch->inputs.begin() + begin,
                        batch->inputs.begin() + begin + batch->seq_len);
          sample.insert(sample.end(), batch->labels.begin() + begin,
                        batch->labels.begin() + begin + batch->seq_len);
          sample.insert(sample.end(), batch->documents.begin() + begin,
                        batch->documents.begin() + begin + batch->seq_len);
          samples.push_back(std::move(sample));
        }
      }
    }
    return any ? samples : std::vector<Sample>{};
  }

  nlohmann::json state() const {
    std::vector<nlohmann::json> states;
    for (const auto& loader : loaders_) states.push_back(loader->state());
    return Loader::merge_states(states);
  }
  void restore(const nlohmann::json& state) {
    for (auto& loader : loaders_) loader->restore(state);
  }
  DataReport report() const {
    DataReport sum;
    for (const auto& loader : loaders_) sum += loader->report();
    return sum;
  }

 private:
  ByteTokenizer tokenizer_;
  LoaderOptions options_;
  std::vector<std::unique_ptr<Loader>> loaders_;
};

LoaderOptions run_options(const std::string& path, int64_t global_batch, int64_t local_batch) {
  LoaderOptions options = options_for(path, 32);
  options.global_batch_size = global_batch;
  options.local_batch_size = local_batch;
  options.num_epochs = std::nullopt;
  return options;
}

TEST(Loader, PacksDocumentsBetweenBosAndEosWithoutOverlap) {
  const Folder folder;
  const ByteTokenizer tokenizer;
  Loader loader(options_for(folder.write("a.txt", "abc\ndefgh\n"), 4), tokenizer);
  // <s> a b c </s> | <s> d e f g | h </s>
  const auto first = loader.next();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->inputs, (std::vector<int32_t>{256, 'a', 'b', 'c'}));
  EXPECT_EQ(first->labels, (std::vector<int32_t>{'a', 'b', 'c', 257}));
  const auto second = loader.next();
  EXPECT_EQ(second->inputs, (std::vector<int32_t>{256, 'd', 'e', 'f'}));
  EXPECT_EQ(second->labels, (std::vector<int32_t>{'d', 'e', 'f', 'g'}));
  const auto last = loader.next();
  ASSERT_TRUE(last);
  EXPECT_EQ(last->inputs[0], 'h');
  EXPECT_EQ(last->labels, (std::vector<int32_t>{257, -100, -100, -100}));
  EXPECT_EQ(last->valid_tokens, 1);
  EXPECT_FALSE(loader.next());
  EXPECT_FALSE(loader.next());
}

using Ids = std::vector<int32_t>;

TEST(Loader, NumbersTheDocumentsOfASample) {
  const Folder folder;
  const ByteTokenizer tokenizer;
  Loader loader(options_for(folder.write("a.txt", "a\nbcdefghi\nj\nk\n"), 6), tokenizer);
  // <s> a </s> <s> b c (d) | e f g h i </s> (<s>) | j </s> <s> k </s>
  EXPECT_EQ(loader.next()->documents, (Ids{0, 0, 0, 1, 1, 1}));
  const auto second = loader.next();
  EXPECT_EQ(second->inputs, (Ids{'e', 'f', 'g', 'h', 'i', 257}));
  EXPECT_EQ(second->documents, (Ids{0, 0, 0, 0, 0, 0}));
  const auto last = loader.next();
  EXPECT_EQ(last->inputs, (Ids{'j', 257, 256, 'k', 257, 0}));
  EXPECT_EQ(last->documents, (Ids{0, 0, 1, 1, 1, 2}));  // what fills the row up is none of them
  EXPECT_EQ(loader.empty_batch().documents, (Ids{0, 0, 0, 0, 0, 0}));
}

// No mark stands between its documents, and texts can hold the id of EOS.
class MarklessTokenizer : public ByteTokenizer {
 public:
  std::optional<int32_t> bos_id() const override { return std::nullopt; }
  std::optional<int32_t> eos_id() const override { return std::nullopt; }
};

class EosInTextTokenizer : public MarklessTokenizer {
 public:
  std::optional<int32_t> eos_id() const override { return '$'; }
};

TEST(Loader, KnowsDocumentsByTheirTextsNotByTheirMarks) {
  const Folder folder;
  const auto options = options_for(folder.write("a.txt", "ab\nc$d\nefg\n"), 7);
  const MarklessTokenizer markless;
  EXPECT_EQ(Loader(options, markless).next()->documents, (Ids{0, 0, 1, 1, 1, 2, 2}));
  const EosInTextTokenizer marked;  // a b $ c $ d $ (e)
  EXPECT_EQ(Loader(options, marked).next()->documents, (Ids{0, 0, 0, 1, 1, 1, 1}));
}

TEST(Loader, SampleComesFromStreamOfItsNumber) {
  const Folder folder;
  const ByteTokenizer tokenizer;
  auto options = options_for(folder.write("a.txt", "aaaa\nbbbb\ncccc\ndddd\n"), 5);
  options.global_batch_size = options.local_batch_size = 2;
  Loader loader(options, tokenizer);
  const auto first = loader.next();
  EXPECT_EQ(first->inputs,
            (std::vector<int32_t>{256, 'a', 'a', 'a', 'a', 256, 'b', 'b', 'b', 'b'}));
  const auto second = loader.next();
  EXPECT_EQ(second->inputs,
            (std::vector<int32_t>{256, 'c', 'c', 'c', 'c', 256, 'd', 'd', 'd', 'd'}));
  EXPECT_FALSE(loader.next());
}

TEST(Loader, GivesTheSameIdsToAnyNumberOfReaders) {
  const Folder folder;
  const auto path = folder.write("a.txt", many_lines(300));
  std::vector<std::vector<Sample>> wanted;
  Readers one(run_options(path, 24, 24), 1);
  for (int step = 0; step < 40; ++step)
    wanted.push_back(one.step());  // several passes over the set
  EXPECT_GE(one.report().epoch, 2);
  for (const auto& [readers, local] :
       std::map<int64_t, int64_t>{{1, 4}, {2, 6}, {3, 8}, {8, 3}, {24, 1}}) {
    auto options = run_options(path, 24, local);
    options.prefetch = 3;
    options.threads = 2;
    Readers run(options, readers);
    for (size_t step = 0; step < wanted.size(); ++step) {
      ASSERT_EQ(run.step(), wanted[step]) << readers << " readers, step " << step;
    }
  }
}

TEST(Loader, ResumesExactlyOnAnotherNumberOfReaders) {
  const Folder folder;
  const auto path = folder.write("a.txt", many_lines(300));
  Readers whole(run_options(path, 24, 24), 1);
  std::vector<std::vector<Sample>> wanted;
  for (int step = 0; step < 30; ++step) wanted.push_back(whole.step());
  auto options = run_options(path, 24, 1);
  options.prefetch = 2;
  Readers saved(options, 8);
  for (int step = 0; step < 13; ++step) saved.step();
  const auto state = nlohmann::json::parse(saved.state().dump());
  for (const int64_t readers : {1, 2, 3, 8}) {
    Readers resumed(options, readers);
    resumed.step();  // a used loader is put back as well as a fresh one
    resumed.restore(state);
    for (size_t step = 13; step < wanted.size(); ++step) {
      ASSERT_EQ(resumed.step(), wanted[step]) << readers << " readers, step " << step;
    }
    EXPECT_EQ(resumed.report().to_json()["documents"], whole.report().to_json()["documents"])
        << readers;
    EXPECT_EQ(resumed.report().tokens, whole.report().tokens) << readers;
  }
}

// The comparison above must notice a single lost document, repeated document, or token.
TEST(Loader, ResumeComparisonSeesEveryPerturbation) {
  const Folder folder;
  const auto path = folder.write("a.txt", many_lines(300));
  const auto options = run_options(path, 4, 4);
  Readers saved(options, 1);
  for (int step = 0; step < 5; ++step) saved.step();
  const auto state = saved.state();
  const auto after = [&](const nlohmann::json& from) {
    Readers run(options, 1);
    run.restore(from);
    std::vector<Sample> samples;
    for (int step = 0; step < 3; ++step) {
      for (auto& sample : run.step()) samples.push_back(std::move(sample));
    }
    return samples;
  };
  const auto wanted = after(state);
  for (int step = 0, at = 0; step < 3; ++step) {
    for (const auto& sample : saved.step()) ASSERT_EQ(sample, wanted[static_cast<size_t>(at++)]);
  }
  for (const auto& [stream, position] : state["streams"].items()) {
    auto dropped = state;  // the next document of the stream is lost
    dropped["streams"][stream][1] = position[1].get<int64_t>() + 4;
    dropped["streams"][stream][2] = 0;
    EXPECT_NE(after(dropped), wanted);
    if (position[2].get<int64_t>() == 0) continue;
    auto token_twice = state;
    token_twice["streams"][stream][2] = position[2].get<int64_t>() - 1;
    EXPECT_NE(after(token_twice), wanted);
  }
  auto shifted = state;
  shifted["samples"] = state["samples"].get<int64_t>() + 1;
  EXPECT_NE(after(shifted), wanted);
}

TEST(Loader, MoreVirtualStreamsAllowOtherGlobalBatches) {
  const Folder folder;
  const auto path = folder.write("a.txt", many_lines(300));
  auto options = run_options(path, 8, 4);
  options.virtual_streams = 24;
  Readers first(options, 2);
  for (int step = 0; step < 7; ++step) first.step();
  const auto state = first.state();
  // The same samples, cut into steps of 12 instead of 8.
  std::vector<Sample> wanted;
  for (int step = 0; step < 6; ++step) {
    for (auto& sample : first.step()) wanted.push_back(std::move(sample));
  }
  auto other = run_options(path, 12, 4);
  Readers resumed(other, 3);
  resumed.restore(state);
  std::vector<Sample> got;
  for (int step = 0; step < 4; ++step) {
    for (auto& sample : resumed.step()) got.push_back(std::move(sample));
  }
  EXPECT_EQ(got, wanted);
  Readers refused(run_options(path, 16, 4), 1);
  EXPECT_THROW(refused.restore(state), Error);
}

TEST(Loader, FinitePassGivesEveryDocumentOnce) {
  const Folder folder;
  const auto path = folder.write("a.txt", many_lines(101));
  for (const int64_t readers : {1, 2}) {
    auto options = run_options(path, 4, 2);
    options.num_epochs = 2;
    Readers run(options, readers);
    std::multiset<std::string> documents;
    std::map<size_t, std::vector<int32_t>> streams;
    int64_t valid = 0;
    for (auto samples = run.step(); !samples.empty(); samples = run.step()) {
      for (size_t k = 0; k < samples.size(); ++k) {
        const auto& sample = samples[k];
        const int64_t seq_len = 32;
        for (int64_t i = 0; i < seq_len && sample[static_cast<size_t>(seq_len + i)] != -100; ++i) {
          if (i == 0) streams[k].push_back(sample[0]);
          streams[k].push_back(sample[static_cast<size_t>(seq_len + i)]);
          ++valid;
        }
      }
    }
    std::string text;
    for (const auto& [stream, ids] : streams) text += ByteTokenizer().decode(ids);
    const auto report = run.report();
    EXPECT_EQ(report.documents, 202);
    // A single token left over at a stream's end has no label; all others are there.
    EXPECT_EQ(static_cast<int64_t>(std::ranges::count(text, 'd') > 0), 1);
    int64_t tokens = 0;
    for (const auto& [stream, ids] : streams) tokens += static_cast<int64_t>(ids.size());
    EXPECT_EQ(tokens + report.unlabelled_tokens, report.tokens);
    EXPECT_EQ(valid, tokens - report.samples);
    for (int i = 0; i < 101; ++i) {
      const std::string mark = "<s>d" + std::to_string(i) + ":";
      size_t times = 0;
      for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + 1))
        ++times;
      EXPECT_EQ(times, 2u) << mark;
    }
  }
}

TEST(Loader, RewindGivesTheSamePassAgain) {
  const Folder folder;
  const ByteTokenizer tokenizer;
  auto options = options_for(folder.write("a.txt", "\n" + many_lines(40)), 16);
  options.prefetch = 2;
  Loader loader(options, tokenizer);
  const auto pass = [&] {
    std::vector<std::vector<int32_t>> labels;
    while (const auto batch = loader.next()) labels.push_back(batch->labels);
    return labels;
  };
  const auto first = pass();
  loader.rewind();
  EXPECT_EQ(pass(), first);
  EXPECT_EQ(loader.report().count(Irregularity::kBlankLine), 1)
      << "facts of the data are counted once";
}

TEST(Loader, SetSmallerThanTheStreamsStillFeedsEachStream) {
  const Folder folder;
  Readers run(run_options(folder.write("a.txt", "one\n\n\ntwo\n"), 8, 8), 1);
  for (int step = 0; step < 20; ++step) {
    const auto samples = run.step();
    ASSERT_EQ(samples.size(), 8u);
    for (const auto& sample : samples) EXPECT_NE(sample.back(), -100);
  }
}

TEST(Loader, RefusesASetWithoutText) {
  const Folder folder;
  const ByteTokenizer tokenizer;
  auto options = run_options(folder.write("a.jsonl", "{\"txt\": \"a\"}\n{\"text\": \"\"}\n"), 2, 2);
  for (const int64_t prefetch : {0, 2}) {
    options.prefetch = prefetch;
    Loader loader(options, tokenizer);
    EXPECT_THROW(loader.next(), Error);
    EXPECT_THROW(loader.next(), Error);
  }
}

TEST(Loader, RefusesToResumeOnOtherDataTokenizerOrDamage) {
  const Folder folder;
  const ByteTokenizer tokenizer;
  const auto options = run_options(folder.write("a.txt", many_lines(30)), 2, 2);
  Loader loader(options, tokenizer);
  loader.next();
  const auto state = loader.state();
  Loader other(run_options(folder.write("b.txt", many_lines(31)), 2, 2), tokenizer);
  EXPECT_THROW(other.restore(state), Error);
  for (const char* key : {"tokenizer", "data"}) {
    auto changed = state;
    changed[key] = "0123456789abcdef";
    EXPECT_THROW(Loader(options, tokenizer).restore(changed), Error) << key;
  }
  for (const char* key : {"version", "streams", "samples", "report"}) {
    auto damaged = state;
    damaged.erase(key);
    EXPECT_THROW(Loader(options, tokenizer).restore(damaged), Error) << key;
  }
  auto lacking = state;
  lacking["streams"].erase("1");
  EXPECT_THROW(Loader(options, tokenizer).restore(lacking), Error);
}

TEST(Loader, StateIsOfHandedOutBatchesNotOfPrefetchedOnes) {
  const Folder folder;
  const ByteTokenizer tokenizer;
  auto options = run_options(folder.write("a.txt", many_lines(100)), 2, 2);
  Loader plain(options, tokenizer);
  options.prefetch = 8;
  options.threads = 3;
  Loader ahead(options, tokenizer);
  for (int i = 0; i < 10; ++i) {
    plain.next();
    ahead.next();
    EXPECT_EQ(plain.state(), ahead.state());
  }
}

TEST(Loader, ChecksItsOptions) {
  const Folder folder;
  const ByteTokenizer tokenizer;
  const auto good = run_options(folder.write("a.txt", "a\n"), 8, 2);
  const auto refuses = [&](auto change) {
    auto options = good;
    change(options);
    EXPECT_THROW(Loader(options, tokenizer), Error);
  };
  refuses([](LoaderOptions& o) { o.seq_len = 0; });
  refuses([](LoaderOptions& o) { o.global_batch_size = 7; });
  refuses([](LoaderOptions& o) { o.virtual_streams = 12; });
  refuses([](LoaderOptions& o) { o.num_epochs = 0; });
  refuses([](LoaderOptions& o) { o.prefetch = -1; });
  refuses([](LoaderOptions& o) { o.dataset.path = "/no/such/file.txt"; });
}

}  // namespace
}  // namespace titan::data
