#include "services/cli/worker_table.h"

#include <gmock/gmock.h>

#include "nlohmann/json.hpp"

namespace baton::cli {
namespace {

using testing::HasSubstr;

WorkerSnapshot MakeSnapshot(double seconds, uint64_t prompt_tokens, uint64_t generated_tokens,
                            const std::string& incarnation = "00112233445566ff") {
  WorkerSnapshot snapshot;
  snapshot.seconds = seconds;
  snapshot.workers.set_router_waiting(3);
  v1::Worker* worker = snapshot.workers.add_workers();
  worker->set_address("127.0.0.1:8102");
  worker->set_role(v1::WORKER_ROLE_DECODE);
  worker->set_state(v1::WORKER_STATE_READY);
  worker->set_model("demo");
  worker->set_incarnation(incarnation);
  worker->set_running_sequences(2);
  worker->set_max_batch(64);
  worker->set_prompt_tokens(prompt_tokens);
  worker->set_generated_tokens(generated_tokens);
  worker->set_prefix_queries(4);
  worker->set_prefix_hits(1);
  worker->mutable_kv_blocks()->set_owned(25);
  worker->mutable_kv_blocks()->set_free(75);
  return snapshot;
}

TEST(WorkerRates, ComeFromTwoLooks) {
  const WorkerSnapshot before = MakeSnapshot(10, 1000, 500), now = MakeSnapshot(12, 1500, 520);
  const WorkerRates rates = RatesOf(now.workers.workers(0), now, before);
  EXPECT_EQ(rates.prompt_tokens, 250.0);
  EXPECT_EQ(rates.generated_tokens, 10.0);
  EXPECT_FALSE(RatesOf(now.workers.workers(0), now, std::nullopt).prompt_tokens);
}

TEST(WorkerRates, ARestartedWorkerHasNone) {
  const WorkerSnapshot before = MakeSnapshot(10, 1000, 500), now = MakeSnapshot(12, 1500, 520, "ffff");
  EXPECT_FALSE(RatesOf(now.workers.workers(0), now, before).prompt_tokens);
}

TEST(WorkerRates, ComputeAndMemoryAreSharesOfWhatTheMachineCouldDo) {
  WorkerSnapshot before = MakeSnapshot(10, 0, 0), now = MakeSnapshot(12, 0, 0);
  now.workers.mutable_workers(0)->set_flops(40);
  now.workers.mutable_workers(0)->set_bytes_read(10);
  EXPECT_FALSE(RatesOf(now.workers.workers(0), now, before).compute) << "not measured";
  now.workers.mutable_workers(0)->set_peak_flops_per_second(80);
  now.workers.mutable_workers(0)->set_peak_bytes_per_second(50);
  EXPECT_EQ(RatesOf(now.workers.workers(0), now, before).compute, 0.25);
  EXPECT_EQ(RatesOf(now.workers.workers(0), now, before).memory, 0.1);
}

TEST(TopLines, ShowLoadKvAndQueue) {
  const WorkerSnapshot before = MakeSnapshot(10, 1000, 500), now = MakeSnapshot(12, 1500, 520);
  const std::vector<std::string> lines = TopLines(now, before, before);
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0], "router: 0 running, 3 waiting");
  EXPECT_THAT(lines[1], HasSubstr("KV use"));
  EXPECT_THAT(lines[2], testing::StartsWith("127.0.0.1:8102  decode  ready     2/64"));
  EXPECT_THAT(lines[2], HasSubstr("[#####...............] 25%"));
  EXPECT_THAT(lines[2], testing::EndsWith("75  demo   00112233445566ff"));
  EXPECT_THAT(lines[2],
              HasSubstr("250.0   10.0         0.0       0.0         0 B        -       -              0   25%"));
}

TEST(TopJson, HasRatesOnlyAfterTwoLooks) {
  const WorkerSnapshot before = MakeSnapshot(10, 1000, 500), now = MakeSnapshot(12, 1500, 520);
  const auto first = nlohmann::json::parse(TopJson(before, std::nullopt, std::nullopt));
  EXPECT_FALSE(first["workers"][0].contains("prompt_tokens_per_second"));
  const auto second = nlohmann::json::parse(TopJson(now, before, before));
  EXPECT_EQ(second["workers"][0]["generated_tokens_per_second"], 10.0);
  EXPECT_EQ(second["workers"][0]["kv_blocks"]["owned"], 25);
  EXPECT_EQ(second["router_waiting"], 3);
}

}  // namespace
}  // namespace baton::cli
