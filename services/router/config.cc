#include "services/router/config.h"

#include "common/base/status.h"
#include "common/config/host_port.h"

namespace baton {

void RouterConfig::AddTo(Flags& flags) {
  AddServerFlags(flags, server);
  flags.Add("metrics_host", &metrics_host, "Address to serve /metrics on.");
  flags.Add("metrics_port", &metrics_port, "Port to serve /metrics on; 0 takes a free one.");
  flags.AddChoice("log_level", &log_level, {"debug", "info", "warning", "error"}, "Least severe level to log.");
  flags.Add("grace_seconds", &grace_seconds, "Time that running requests get to finish after SIGTERM.", 0, 86400);

  flags.Add(
      "workers", &workers,
      "Prefill and decode workers as host:port, comma-separated. A name stands for every address it resolves to.");
  flags.Require("workers");
  flags.Add("resolve_seconds", &resolve_seconds, "How often names are resolved again.", 0.1, 3600);
  worker_channel.tls.flags = "worker_tls";
  flags.Add("worker_tls_cert", &worker_channel.tls.certificate, "PEM certificate to show the workers.");
  flags.Add("worker_tls_key", &worker_channel.tls.key, "PEM private key of the certificate.");
  flags.Add("worker_tls_ca", &worker_channel.tls.ca,
            "PEM certificates that the workers' must be signed by; empty means plain text.");

  flags.AddChoice("disaggregation", &disaggregation, {"auto", "always", "never"},
                  "Whether prompts are read by prefill workers.");
  flags.Add("local_prefill_tokens", &local_prefill_tokens,
            "auto: prompts with at most so many uncached tokens are read by the decode worker.", 0, 1u << 20);
  flags.Add("max_running", &max_running, "Prompts served at the same time.", 1, 1u << 20);
  flags.Add("max_waiting", &max_waiting, "Prompts that may wait beyond that.", 0, 1u << 20);
  flags.Add("priority_aging_seconds", &priority_aging_seconds,
            "Waiting time that is worth one level of priority; 0: urgent requests may starve others.", 0, 3600);
  flags.Add("max_attempts", &max_attempts, "Pairs tried for a prompt before it fails.", 1, 16);
  flags.Add("max_prompt_kib", &max_prompt_kib, "Longest text of a prompt, KiB.", 1, 1u << 20);
  flags.Add("default_max_tokens", &default_max_tokens, "max_tokens of requests that name none.", 1, 1u << 20);
  flags.Add(
      "max_unread_kib", &max_unread_kib,
      "Tokens that may wait for a client that reads slower than they come, KiB on the wire; beyond that its request "
      "ends with RESOURCE_EXHAUSTED.",
      1, 1u << 20);
  flags.Add("text_threads", &text_threads, "Threads for tokenizing and chat templates.", 1, 256);
  AddTracingFlags(flags, collector);
  flags.Add("trace_sample_ratio", &trace_sample_ratio,
            "Share of requests whose spans are sent, of those that come without a traceparent; one that has it says "
            "itself whether it is sampled.",
            0, 1);
}

absl::Status RouterConfig::Finish() {
  for (const std::string& worker : workers) {
    if (const auto address = ParseHostPort(worker); !address.ok()) return WithContext(address.status(), "--workers");
  }
  BATON_RETURN_IF_ERROR(CheckChannelTls(worker_channel.tls));
  policy = disaggregation == "always"  ? DisaggregationPolicy::kAlways
           : disaggregation == "never" ? DisaggregationPolicy::kNever
                                       : DisaggregationPolicy::kAuto;
  priority_aging = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(priority_aging_seconds));
  worker_channel.max_message_mib = server.max_message_mib;
  return absl::OkStatus();
}

}  // namespace baton
