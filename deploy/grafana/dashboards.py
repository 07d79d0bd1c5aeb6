#!/usr/bin/env python3
"""Writes overview.json and workers.json, the Grafana dashboards, beside this file. Python's standard library only.

    deploy/grafana/dashboards.py            writes both
    deploy/grafana/dashboards.py --check    fails when a file is not what this script writes

A panel is one entry here: title, unit, and queries as (expression, legend). In expressions {R}, {P}, {D} and {W} stand
for the label selectors of routers, prefill workers, decode workers and both kinds of workers, {A} for routers whatever
the model.
"""

import json
import os
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))

NAMESPACE = 'namespace=~"$namespace"'
MODEL = f'{NAMESPACE},model=~"$model"'
SELECTORS = {"R": f'role="router",{MODEL}', "A": f'role="router",{NAMESPACE}',
             "P": f'role="prefill",{MODEL}', "D": f'role="decode",{MODEL}',
             "W": f'role=~"prefill|decode",{MODEL}', "N": NAMESPACE, "M": MODEL,
             "I": f'role=~"prefill|decode",{MODEL},instance=~"$instance"'}
SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def expand(expression):
    for letter, selector in SELECTORS.items():
        for end in "},":
            expression = expression.replace("{" + letter + end, "{" + selector + end)
    return expression


def quantiles(metric, selector, by=""):
    """P50, P90 and P99 of a histogram."""
    legend = "".join(f"{{{{{label}}}}} " for label in by.split(",") if label)
    labels = ", ".join(filter(None, [by, "le"]))
    return [(f"histogram_quantile({q}, sum by ({labels}) (rate({metric}_bucket{selector}[$__rate_interval])))",
             f"{legend}P{q * 100:.0f}") for q in (0.5, 0.9, 0.99)]


def mean(metric, selector, legend, by=""):
    """Mean of a histogram's observations."""
    grouped = f"sum by ({by})" if by else "sum"
    return (f"{grouped} (rate({metric}_sum{selector}[$__rate_interval])) / "
            f"{grouped} (rate({metric}_count{selector}[$__rate_interval]))", legend)


def rate(metric, selector, legend, by=""):
    grouped = f"sum by ({by})" if by else "sum"
    return f"{grouped} (rate({metric}{selector}[$__rate_interval]))", legend


TTFT, ITL = "baton_time_to_first_token_seconds", "baton_inter_token_latency_seconds"

# (row, [(title, unit, help, queries[, options])]); `stack` stacks areas, `max` fixes the axis.
OVERVIEW = [
    ("Users", [
        ("Time to first token", "s",
         "From the arrival at the router to the first token, queueing included; dashed: what was promised.",
         [*quantiles(TTFT, "{R}"), ("baton:time_to_first_token_objective_seconds", "objective (P90)")]),
        ("Inter-token latency", "s", "Gap between two tokens of an answer, at the router; dashed: what was promised.",
         [*quantiles(ITL, "{R}"), ("baton:inter_token_latency_objective_seconds", "objective (P99)")]),
        ("Requests ended", "reqps", "By gRPC code.",
         [('sum by (reason) (rate(baton_requests_total{R}[$__rate_interval])) > 0', "{{reason}}")], {"stack": True}),
        ("Failed and rejected", "percentunit",
         "Failed: Baton's fault or a missed deadline. Rejected: told to retry, the queue was full.",
         [("namespace_model:baton_requests_failed:ratio_rate5m{M}", "failed {{model}}"),
          ("namespace_model:baton_requests_rejected:ratio_rate5m{M}", "rejected {{model}}")]),
        ("Saturation by role", "percentunit", "Batch slots or KV pool in use, whichever is fuller.",
         [("namespace_model_role:baton_saturation:ratio{M}", "{{role}} {{model}}")], {"max": 1}),
        ("Tokens", "short", "Tokens a second: generated for users, and read from prompts by the engines.",
         [rate("baton_generation_tokens_total", "{R}", "generated"),
          rate("baton_prompt_tokens_total", "{W}", "prompt, computed"),
          rate("baton_cached_prompt_tokens_total", "{W}", "prompt, cached")]),
    ]),
    ("Router", [
        ("Requests in flight", "short", "Prompts being served, and those that wait for a place.",
         [("sum (baton_requests_running{A})", "running"), ("sum (baton_requests_waiting{A})", "waiting")]),
        ("Mean time by stage", "s",
         "Where the time of a request goes, of those that ended well: the stages add up to its latency.",
         [mean("baton_request_stage_seconds", "{R}", "{{stage}}", "stage")], {"stack": True}),
        ("Queue time", "s", "For a place at the router and for the worker's scheduler.",
         quantiles("baton_request_queue_time_seconds", "{R}")),
        ("Latency of whole requests", "s", "Arrival to end, of those that ended well.",
         quantiles("baton_e2e_request_latency_seconds", "{R}")),
        ("Where prompts are read", "ops", "Pairing decisions by reason.",
         [('sum by (reason) (rate(baton_disaggregation_decisions_total{R}[$__rate_interval])) > 0', "{{reason}}")],
         {"stack": True}),
        ("Workers", "short", "By role and state, as the router that sees fewest of them ready.",
         [("min by (worker_role) (baton_workers_ready{A})", "{{worker_role}} ready"),
          ('max by (worker_role, state) (baton_workers{R,state!="ready"}) > 0', "{{worker_role}} {{state}}")]),
        ("Attempts that failed", "ops",
         "Tries of a request on a pair that ended without it, by reason; then the request goes on or begins "
         "again elsewhere.",
         [('sum by (reason) (rate(baton_attempt_failures_total{R}[$__rate_interval])) > 0', "{{reason}}"),
          rate("baton_resumes_total", "{R}", "went on"), rate("baton_retries_total", "{R}", "began again")]),
        ("Reserving blocks", "s",
         "Asking a decode worker for blocks until it promised them; beside the prefill, not before it.",
         quantiles("baton_request_reserve_time_seconds", "{R}")),
        ("First visible text", "s",
         "Arrival to the first text a client sees: later than the first token where a stop string may still match.",
         quantiles("baton_time_to_first_text_seconds", "{R}")),
    ]),
    ("Prefill", [
        ("Backlog", "s", "How long the prompt tokens that wait will take at the rate of the last five minutes.",
         [("namespace_model:baton_prefill_backlog_seconds:sum{M}", "{{model}}")]),
        ("Prompt tokens waiting", "short", "Accepted and not yet run.",
         [("sum by (model) (baton_waiting_prompt_tokens{P})", "{{model}}")]),
        ("Prefill time", "s", "First scheduled to first token, on the prefill workers.",
         quantiles("baton_request_prefill_time_seconds", "{P}")),
        ("Prompt tokens", "short", "Tokens a second run through the model and taken from the prefix cache.",
         [rate("baton_prompt_tokens_total", "{P}", "computed"),
          rate("baton_cached_prompt_tokens_total", "{P}", "cached")], {"stack": True}),
        ("Prefix cache hit rate", "percentunit", "Full prompt blocks found, of those looked up.",
         [("sum by (role) (rate(baton_prefix_cache_hits_total{W}[$__rate_interval])) / "
           "sum by (role) (rate(baton_prefix_cache_queries_total{W}[$__rate_interval]))", "{{role}}")], {"max": 1}),
        ("KV blocks of prefill workers", "short", "The five states add up to the pools.",
         [("sum by (state) (baton_kv_blocks{P})", "{{state}}")], {"stack": True}),
    ]),
    ("Handoff", [
        ("Handoffs ended", "ops", "By outcome, as the prefill workers see them.",
         [("sum by (outcome) (rate(baton_handoffs_total{P}[$__rate_interval]))", "{{outcome}}")], {"stack": True}),
        ("KV moved", "Bps", "Bytes a second put, and the rate while a transfer runs.",
         [rate("baton_kv_transfer_bytes_total", "{P}", "moved"),
          ("namespace_model:baton_kv_transfer_bytes_per_second:rate5m{M}", "rate of a transfer")]),
        ("Transfer tail", "s", "End of prefill to the decode worker's answer: what the transfer adds to a request.",
         quantiles("baton_kv_transfer_tail_seconds", "{P}")),
        ("Leases and quarantine", "short",
         "Leases that have not ended; blocks kept aside until a silent peer is proven gone.",
         [("sum (baton_leases_open{D})", "leases open"), ('sum (baton_kv_blocks{D,state="leased"})', "blocks leased"),
          ('sum (baton_kv_blocks{D,state="quarantined"})', "blocks quarantined")]),
        ("Refused", "ops", "Commits with wrong checksums; writes that came after their lease's end.",
         [rate("baton_kv_checksum_mismatches_total", "{D}", "checksum mismatches"),
          rate("baton_kv_late_writes_refused_total", "{D}", "late writes"),
          rate("baton_kv_transfer_failures_total", "{P}", "failed transfers")]),
        ("Pairs of unequal numerics", "ops",
         "Attempts whose prompt a prefill worker of other numerics read, under --allow_mixed_numerics: their tokens "
         "depend on the pair.", [rate("baton_mixed_numerics_attempts_total", "{R}", "{{model}}", "model")]),
    ]),
    ("Decode", [
        ("Batch slots", "short", "Sequences in the batch, and places left.",
         [("sum by (state) (baton_batch_slots{D})", "{{state}}")], {"stack": True}),
        ("KV blocks of decode workers", "short", "The five states add up to the pools.",
         [("sum by (state) (baton_kv_blocks{D})", "{{state}}")], {"stack": True}),
        ("Inter-token latency at the workers", "s", "Without the router and the network between.",
         quantiles(ITL, "{D}")),
        ("Tokens generated", "short", "Tokens a second.",
         [rate("baton_generation_tokens_total", "{D}", "{{model}}", "model")]),
        ("Preemptions", "ops", "Sequences a second that gave their blocks back, by how they get their KV again.",
         [rate("baton_preemptions_total", "{W}", "{{role}} {{kind}}", "role, kind")]),
        ("Host swap area", "short", "Blocks of preempted sequences in host memory, and room for more.",
         [("sum by (state) (baton_swap_blocks{D})", "{{state}}")], {"stack": True}),
        ("Waiting for the scheduler", "short", "Requests that decode workers have accepted and not begun.",
         [("sum by (model) (baton_requests_waiting{D})", "{{model}}")]),
    ]),
    ("Engine", [
        ("Step time", "s", "Duration of a forward pass.", quantiles("baton_step_seconds", "{W}", "role")),
        ("Steps over target", "percentunit", "Share of the steps that took longer than --max_itl_ms while streams ran.",
         [("sum by (role) (rate(baton_steps_over_target_total{W}[$__rate_interval])) / "
           "sum by (role) (rate(baton_step_seconds_count{W}[$__rate_interval]))", "{{role}}")], {"max": 1}),
        ("Prompt tokens a step may take", "short",
         "What the target leaves room for beside running streams, mean of the workers.",
         [("avg by (role) (baton_step_prompt_budget_tokens{W})", "{{role}}")]),
        ("Tokens in a step", "short", "Prompt and decode tokens together, mean.",
         [mean("baton_step_tokens", "{W}", "{{role}}", "role")]),
        ("Sequences in a step", "short", "Mean.", [mean("baton_batch_size", "{W}", "{{role}}", "role")]),
        ("Arithmetic", "flops", "Floating-point operations of the model's matrices, achieved by all workers of a role.",
         [rate("baton_engine_flops_total", "{W}", "{{role}}", "role")]),
        ("Memory traffic", "Bps", "Bytes of weights and KV read, by all workers of a role.",
         [rate("baton_engine_bytes_total", "{W}", "{{role}}", "role")]),
        ("Share of the ceilings", "percentunit",
         "Achieved arithmetic and reading, of what each worker measured at its start: a busy engine need not "
         "be near either.",
         [("sum by (role) (rate(baton_engine_flops_total{W}[$__rate_interval])) / "
           "(sum by (role) (baton_engine_peak_flops_per_second{W}) > 0)", "{{role}} arithmetic"),
          ("sum by (role) (rate(baton_engine_bytes_total{W}[$__rate_interval])) / "
           "(sum by (role) (baton_engine_peak_bytes_per_second{W}) > 0)", "{{role}} memory")], {"max": 1}),
        ("Engine busy", "percentunit", "Share of the time in steps, mean of the workers of a role.",
         [("avg by (role) (rate(baton_step_seconds_sum{W}[$__rate_interval]))", "{{role}}")], {"max": 1}),
    ]),
]

EACH = "{{role}} {{instance}}"
WORKERS = [
    ("Work", [
        ("Ready", "short", "1 while the worker takes work.", [("baton_ready{I}", EACH)], {"max": 1}),
        ("Sequences in the batch", "short", "", [("baton_requests_running{I}", EACH)]),
        ("Requests waiting", "short", "For the scheduler.", [("baton_requests_waiting{I}", EACH)]),
        ("Prompt tokens waiting", "short", "Accepted and not yet run.", [("baton_waiting_prompt_tokens{I}", EACH)]),
        ("Prompt tokens computed", "short", "Tokens a second.",
         [rate("baton_prompt_tokens_total", "{I}", EACH, "role, instance")]),
        ("Tokens generated", "short", "Tokens a second.",
         [rate("baton_generation_tokens_total", "{I}", EACH, "role, instance")]),
    ]),
    ("Memory", [
        ("KV pool in use", "percentunit", "Blocks neither free nor cached.",
         [("baton_kv_usage_ratio{I}", EACH)], {"max": 1}),
        ("KV blocks by state", "short", "The five states add up to the pools of the workers chosen.",
         [("sum by (state) (baton_kv_blocks{I})", "{{state}}")], {"stack": True}),
        ("Prefix cache hit rate", "percentunit", "Full prompt blocks found, of those looked up.",
         [("sum by (role, instance) (rate(baton_prefix_cache_hits_total{I}[$__rate_interval])) / "
           "sum by (role, instance) (rate(baton_prefix_cache_queries_total{I}[$__rate_interval]))", EACH)], {"max": 1}),
        ("Quarantined blocks", "short", "Kept aside until a silent peer is proven gone.",
         [('baton_kv_blocks{I,state="quarantined"}', EACH)]),
        ("Preemptions", "ops", "", [rate("baton_preemptions_total", "{I}", EACH, "role, instance")]),
        ("KV moved", "Bps", "Bytes a second put by prefill workers.",
         [rate("baton_kv_transfer_bytes_total", "{I}", EACH, "role, instance")]),
    ]),
    ("Engine", [
        ("Step time, P99", "s", "",
         [("histogram_quantile(0.99, sum by (role, instance, le) "
           "(rate(baton_step_seconds_bucket{I}[$__rate_interval])))", EACH)]),
        ("Engine busy", "percentunit", "Share of the time in steps.",
         [rate("baton_step_seconds_sum", "{I}", EACH, "role, instance")], {"max": 1}),
        ("Sequences in a step", "short", "Mean.", [mean("baton_batch_size", "{I}", EACH, "role, instance")]),
        ("Arithmetic", "flops", "Floating-point operations of the model's matrices.",
         [rate("baton_engine_flops_total", "{I}", EACH, "role, instance")]),
        ("Memory traffic", "Bps", "Bytes of weights and KV read.",
         [rate("baton_engine_bytes_total", "{I}", EACH, "role, instance")]),
        ("Handoffs ended", "ops", "By outcome; both sides count.",
         [("sum by (role, outcome) (rate(baton_handoffs_total{I}[$__rate_interval]))", "{{role}} {{outcome}}")],
         {"stack": True}),
    ]),
]


def panel(number, x, y, title, unit, text, queries, options=None):
    options = options or {}
    custom = {"drawStyle": "line", "lineWidth": 1, "fillOpacity": 25 if options.get("stack") else 5,
              "showPoints": "never",
              "stacking": {"mode": "normal" if options.get("stack") else "none", "group": "A"}}
    dashed = [{"matcher": {"id": "byRegexp", "options": "objective.*"},
               "properties": [{"id": "custom.lineStyle", "value": {"fill": "dash", "dash": [8, 8]}},
                              {"id": "color", "value": {"mode": "fixed", "fixedColor": "red"}}]}]
    defaults = {"unit": unit, "min": 0, "custom": custom, "color": {"mode": "palette-classic"}}
    if "max" in options:
        defaults["max"] = options["max"]
    return {
        "id": number, "type": "timeseries", "title": title, "description": text, "datasource": SOURCE,
        "gridPos": {"x": x, "y": y, "w": 8, "h": 7},
        "fieldConfig": {"defaults": defaults,
                        "overrides": dashed if any(l.startswith("objective") for _, l in queries) else []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
                    "tooltip": {"mode": "multi", "sort": "desc"}},
        "targets": [{"refId": chr(ord("A") + i), "datasource": SOURCE, "expr": expand(expression),
                     "legendFormat": legend, "range": True}
                    for i, (expression, legend) in enumerate(queries)],
    }


def variable(name, query, label):
    return {"name": name, "label": label, "type": "query", "datasource": SOURCE,
            "query": {"query": query, "refId": name}, "definition": query, "refresh": 2, "includeAll": True,
            "allValue": ".*", "multi": True, "sort": 1, "current": {"text": "All", "value": "$__all"}}


def dashboard(uid, title, text, rows, extra=(), links=()):
    panels, y = [], 0
    for name, contents in rows:
        panels.append({"id": len(panels) + 1, "type": "row", "title": name, "collapsed": False, "panels": [],
                       "gridPos": {"x": 0, "y": y, "w": 24, "h": 1}})
        y += 1
        for i, content in enumerate(contents):
            panels.append(panel(len(panels) + 1, i % 3 * 8, y + i // 3 * 7, *content))
        y += (len(contents) + 2) // 3 * 7
    variables = [{"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus",
                  "refresh": 1},
                 variable("namespace", "label_values(baton_ready, namespace)", "Namespace"),
                 variable("model", 'label_values(baton_ready{namespace=~"$namespace"}, model)', "Model"), *extra]
    return {"uid": uid, "title": title, "description": text, "tags": ["baton"], "schemaVersion": 39, "version": 1,
            "editable": True, "graphTooltip": 1, "refresh": "10s", "time": {"from": "now-1h", "to": "now"},
            "timezone": "browser", "annotations": {"list": []}, "links": list(links),
            "templating": {"list": variables}, "panels": panels}


def link(uid, title):
    return {"type": "link", "title": title, "url": f"/d/{uid}", "keepTime": True, "includeVars": True,
            "asDropdown": False, "icon": "dashboard", "tags": [], "targetBlank": False, "tooltip": ""}


def dashboards():
    workers = 'baton_ready{role=~"prefill|decode",namespace=~"$namespace",model=~"$model"}'
    instance = variable("instance", f"label_values({workers}, instance)", "Worker")
    return {
        "overview.json": dashboard("baton-overview", "Baton / Overview", "What users see, and where the time goes.",
                                   OVERVIEW, links=[link("baton-workers", "Workers")]),
        "workers.json": dashboard("baton-workers", "Baton / Workers", "Every prefill and decode worker by itself.",
                                  WORKERS, [instance], [link("baton-overview", "Overview")]),
    }


def main():
    stale = []
    for name, content in dashboards().items():
        path, text = os.path.join(FOLDER, name), json.dumps(content, indent=1) + "\n"
        if sys.argv[1:] == ["--check"]:
            with open(path, encoding="utf-8") as file:
                stale += [name] if file.read() != text else []
        else:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
    if stale:
        sys.exit(f"{', '.join(stale)}: not what dashboards.py writes; run it")


if __name__ == "__main__":
    main()
