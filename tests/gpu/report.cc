#include "tests/gpu/report.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"

namespace baton {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// The last record of a measure in which all of `where` holds: a step that was run again counts.
std::optional<json> Find(const std::vector<json>& records, const std::string& measure,
                         const json& where = json::object()) {
  std::optional<json> found;
  for (const json& record : records) {
    if (record.value("measure", "") != measure) continue;
    const bool matches = std::all_of(where.items().begin(), where.items().end(), [&](const auto& item) {
      return record.contains(item.key()) && record[item.key()] == item.value();
    });
    if (matches) found = record;
  }
  return found;
}

std::optional<double> Number(const std::optional<json>& record, const char* name) {
  if (!record || !record->contains(name)) return std::nullopt;
  return (*record)[name].get<double>();
}

std::optional<double> Ratio(std::optional<double> a, std::optional<double> b) {
  if (!a || !b || *b == 0) return std::nullopt;
  return *a / *b;
}

void Put(ordered_json& to, const char* name, std::optional<double> value) {
  if (value) to[name] = *value;
}

class Builder {
 public:
  explicit Builder(const std::vector<json>& records) : records_(records) {
    const std::optional<json> memory = Find(records, "bandwidth");
    const std::optional<double> read = Number(memory, "read_bytes_per_second");
    bandwidth_ = read ? std::max(*read, Number(memory, "copy_bytes_per_second").value_or(0)) : read;
    flops_ = Number(Find(records, "product"), "flops_per_second");
  }

  ordered_json Build() {
    ordered_json report;
    if (const auto device = Find(records_, "device")) report["device"] = Without(*device);
    ordered_json ceilings = ordered_json::object();
    Put(ceilings, "memory_bytes_per_second", bandwidth_);
    Put(ceilings, "bf16_flops_per_second", flops_);
    report["ceilings"] = ceilings;
    for (const char* measure : {"step", "load", "decode", "prefill", "blocks", "transformers"}) {
      ordered_json list = ordered_json::array();
      for (const json& record : records_) {
        if (record.value("measure", "") == measure) list.push_back(Completed(measure, record));
      }
      report[measure] = list;
    }
    report["targets"] = Targets();
    return report;
  }

 private:
  static ordered_json Without(const json& record) {
    ordered_json rest;
    for (const auto& [key, value] : record.items()) {
      if (key != "measure") rest[key] = value;
    }
    return rest;
  }

  // A record with what follows from it and from the ceilings.
  ordered_json Completed(const std::string& measure, const json& record) const {
    ordered_json out = Without(record);
    const std::optional<double> seconds = Number(record, "seconds");
    if (measure == "decode") {
      const std::optional<double> floor = Ratio(Number(record, "bytes"), bandwidth_);
      Put(out, "floor_seconds", floor);
      Put(out, "of_floor", Ratio(seconds, floor));
      Put(out, "tokens_per_second", Ratio(Number(record, "batch"), seconds));
    } else if (measure == "prefill") {
      const std::optional<double> rate = Ratio(Number(record, "flops"), seconds);
      Put(out, "flops_per_second", rate);
      Put(out, "of_bf16_rate", Ratio(rate, flops_));
      Put(out, "tokens_per_second", Ratio(Number(record, "length"), seconds));
    } else if (measure == "blocks") {
      Put(out, "bytes_per_second", Ratio(record.value("blocks", 0.0) * record.value("block_bytes", 0.0), seconds));
    }
    if (measure == "decode" || measure == "prefill") {
      Put(out, "attention_share", Ratio(Number(record, "attention_seconds"), seconds));
    }
    return out;
  }

  ordered_json Decode(const std::string& model, int batch, bool graphs) const {
    const auto found = Find(records_, "decode", {{"model", model}, {"batch", batch}, {"graphs", graphs}});
    return found ? Completed("decode", *found) : ordered_json::object();
  }

  ordered_json Targets() const {
    ordered_json targets = ordered_json::array();
    const auto add = [&](const std::string& what, std::optional<double> value, double limit, bool at_least) {
      ordered_json target = {{"target", what}, {at_least ? "at_least" : "at_most", limit}};
      Put(target, "value", value);
      target["result"] = !value ? "not measured" : (at_least ? *value >= limit : *value <= limit) ? "met" : "missed";
      targets.push_back(target);
    };
    const auto of = [](const ordered_json& record, const char* name) -> std::optional<double> {
      return record.contains(name) ? std::optional(record[name].get<double>()) : std::nullopt;
    };
    add("decode of qwen2.5-7b, batch 1, over the memory floor", of(Decode("qwen2.5-7b", 1, true), "of_floor"), 1.6,
        false);
    add("decode of qwen2.5-7b, batch 32, over the memory floor", of(Decode("qwen2.5-7b", 32, true), "of_floor"), 1.35,
        false);
    const auto prefill = Find(records_, "prefill", {{"model", "qwen2.5-7b"}, {"length", 8192}});
    add("prefill of qwen2.5-7b, 8,192 tokens, of the bf16 rate",
        prefill ? of(Completed("prefill", *prefill), "of_bf16_rate") : std::nullopt, 0.55, true);
    add("decode of qwen2.5-0.5b, batch 1, eager over graph",
        Ratio(of(Decode("qwen2.5-0.5b", 1, false), "seconds"), of(Decode("qwen2.5-0.5b", 1, true), "seconds")), 2,
        true);
    return targets;
  }

  const std::vector<json>& records_;
  std::optional<double> bandwidth_, flops_;
};

// "-" for what is not there.
std::string Cell(const ordered_json& record, const char* name, double factor, int decimals) {
  if (!record.contains(name)) return "-";
  return absl::StrFormat("%.*f", decimals, record[name].get<double>() * factor);
}

std::string Text(const ordered_json& record, const char* name) {
  if (!record.contains(name)) return "-";
  const ordered_json& value = record[name];
  return value.is_string() ? value.get<std::string>() : value.dump();
}

using Row = std::vector<std::string>;

void AppendTable(const std::string& title, const Row& head, const std::vector<Row>& rows, std::string& out) {
  if (rows.empty()) return;
  std::vector<size_t> widths;
  for (size_t i = 0; i < head.size(); ++i) {
    widths.push_back(head[i].size());
    for (const Row& row : rows) widths[i] = std::max(widths[i], row[i].size());
  }
  out += "\n" + title + "\n";
  const auto append = [&](const Row& row) {
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string blanks(widths[i] - row[i].size(), ' ');
      out += i == 0 ? row[i] + blanks : "  " + blanks + row[i];
    }
    out += "\n";
  };
  append(head);
  for (const Row& row : rows) append(row);
}

template <typename Cells>
std::vector<Row> RowsOf(const ordered_json& list, const Cells& cells) {
  std::vector<Row> rows;
  for (const ordered_json& record : list) rows.push_back(cells(record));
  return rows;
}

}  // namespace

ordered_json MakeReport(const std::vector<json>& records) { return Builder(records).Build(); }

std::string ReportText(const ordered_json& report) {
  std::string out;
  if (report.contains("device")) {
    const ordered_json& device = report["device"];
    out += absl::StrFormat("%s, sm_%s, %s multiprocessors, %s GiB\n", Text(device, "name"),
                           Text(device, "compute_capability"), Text(device, "multiprocessors"),
                           Cell(device, "bytes", 0x1p-30, 0));
  }
  out += absl::StrFormat("ceilings of this run: memory %s GB/s, bf16 product %s TFLOP/s\n",
                         Cell(report["ceilings"], "memory_bytes_per_second", 1e-9, 0),
                         Cell(report["ceilings"], "bf16_flops_per_second", 1e-12, 0));
  AppendTable("steps", {"step", "result", "s"},
              RowsOf(report["step"],
                     [](const ordered_json& r) {
                       return Row{Text(r, "name"), Text(r, "result"), Cell(r, "seconds", 1, 1)};
                     }),
              out);
  AppendTable("weights: random, made and loaded", {"model", "GB", "s"},
              RowsOf(report["load"],
                     [](const ordered_json& r) {
                       return Row{Text(r, "model"), Cell(r, "bytes", 1e-9, 2), Cell(r, "seconds", 1, 2)};
                     }),
              out);
  AppendTable("decode: a step",
              {"model", "graphs", "batch", "context", "ms", "floor ms", "of floor", "tokens/s", "attention %"},
              RowsOf(report["decode"],
                     [](const ordered_json& r) {
                       return Row{Text(r, "model"),
                                  Text(r, "graphs"),
                                  Text(r, "batch"),
                                  Text(r, "context"),
                                  Cell(r, "seconds", 1e3, 3),
                                  Cell(r, "floor_seconds", 1e3, 3),
                                  Cell(r, "of_floor", 1, 2),
                                  Cell(r, "tokens_per_second", 1, 0),
                                  Cell(r, "attention_share", 100, 0)};
                     }),
              out);
  AppendTable("prefill: a prompt in one step",
              {"model", "tokens", "ms", "TFLOP/s", "% of bf16", "tokens/s", "attention %"},
              RowsOf(report["prefill"],
                     [](const ordered_json& r) {
                       return Row{Text(r, "model"),
                                  Text(r, "length"),
                                  Cell(r, "seconds", 1e3, 2),
                                  Cell(r, "flops_per_second", 1e-12, 1),
                                  Cell(r, "of_bf16_rate", 100, 1),
                                  Cell(r, "tokens_per_second", 1, 0),
                                  Cell(r, "attention_share", 100, 0)};
                     }),
              out);
  AppendTable("KV blocks", {"model", "what", "blocks", "block bytes", "GB/s"},
              RowsOf(report["blocks"],
                     [](const ordered_json& r) {
                       return Row{Text(r, "model"), Text(r, "what"), Text(r, "blocks"), Text(r, "block_bytes"),
                                  Cell(r, "bytes_per_second", 1e-9, 1)};
                     }),
              out);
  AppendTable("transformers, same shapes, same run",
              {"model", "what", "batch", "prompt", "new tokens", "ms a token", "tokens/s"},
              RowsOf(report["transformers"],
                     [](const ordered_json& r) {
                       return Row{Text(r, "model"),
                                  Text(r, "what"),
                                  Text(r, "batch"),
                                  Text(r, "prompt"),
                                  Text(r, "new_tokens"),
                                  Cell(r, "seconds_per_token", 1e3, 3),
                                  Cell(r, "tokens_per_second", 1, 1)};
                     }),
              out);
  AppendTable("targets", {"target", "limit", "value", "result"},
              RowsOf(report["targets"],
                     [](const ordered_json& r) {
                       const bool at_least = r.contains("at_least");
                       return Row{Text(r, "target"),
                                  (at_least ? ">= " : "<= ") + Cell(r, at_least ? "at_least" : "at_most", 1, 2),
                                  Cell(r, "value", 1, 2), Text(r, "result")};
                     }),
              out);
  return out;
}

}  // namespace baton
