{{/* What a schema cannot say, or not readably. Every message names the value. */}}
{{- define "baton.checks" -}}
{{- $own := list "host" "port" "metrics_host" "metrics_port" "grace_seconds" "log_level" "tls_cert" "tls_key" "tls_ca"
    "otlp_endpoint" "otlp_tls_ca" "otlp_tls_cert" "otlp_tls_key" -}}
{{- $routers := concat $own (list "workers" "disaggregation" "worker_tls_cert" "worker_tls_key" "worker_tls_ca" "trace_sample_ratio") -}}
{{- $workers := concat $own (list "model" "model_name" "engine" "weights" "kv_dtype" "block_size" "threads" "kv_gib" "max_batch"
    "gpu_memory_utilization" "deterministic"
    "transport" "bind_host" "ucx_tls" "ucx_devices" "control_host" "control_port") -}}
{{- range $flag, $_ := .Values.router.flags -}}
{{- if has $flag $routers }}{{ fail (printf "router.flags: %s has a value of its own in this chart" $flag) }}{{ end -}}
{{- end -}}
{{- $names := list -}}
{{- $served := list -}}
{{- range $model := .Values.models -}}
{{- $sources := list -}}
{{- range $source := list "image" "claim" "hub" -}}
{{- if hasKey $model $source }}{{ $sources = append $sources $source }}{{ end -}}
{{- end -}}
{{- if ne (len $sources) 1 -}}
{{- fail (printf "models: %s has %d of image, claim and hub [%s], must have exactly one" $model.name (len $sources) (join ", " $sources)) -}}
{{- end -}}
{{- if has $model.name $names }}{{ fail (printf "models: the name %s stands twice" $model.name) }}{{ end -}}
{{- $names = append $names $model.name -}}
{{- $name := include "baton.servedName" $model -}}
{{- if has $name $served }}{{ fail (printf "models: the served name %s stands twice" $name) }}{{ end -}}
{{- $served = append $served $name -}}
{{- end -}}
{{- if and .Values.tls.clientAuth (not .Values.tls.routerSecret) -}}
{{- fail "tls.clientAuth needs tls.routerSecret: without it the public API is plain text and asks for no certificate" -}}
{{- end -}}
{{- $tracing := .Values.tracing -}}
{{- if and $tracing.secret (not (hasPrefix "https://" $tracing.endpoint)) -}}
{{- fail (printf "tracing.secret is %s, but tracing.endpoint, '%s', does not begin with https://" $tracing.secret $tracing.endpoint) -}}
{{- end -}}
{{- if and $tracing.clientAuth (not $tracing.secret) -}}
{{- fail "tracing.clientAuth needs tracing.secret, which holds the certificate" -}}
{{- end -}}
{{- $plane := .Values.kvPlane -}}
{{- if gt (int $plane.firstPort) (int $plane.lastPort) -}}
{{- fail (printf "kvPlane.firstPort is %d, must not exceed kvPlane.lastPort, %d" (int $plane.firstPort) (int $plane.lastPort)) -}}
{{- end -}}
{{- range fromYamlArray (include "baton.workerSets" .) -}}
{{- $set := printf "models: %s: %s" .model.name .role -}}
{{- range $flag, $_ := .config.flags -}}
{{- if has $flag $workers }}{{ fail (printf "%s.flags: %s has a value of its own in this chart" $set $flag) }}{{ end -}}
{{- end -}}
{{- if and (eq (float64 .config.kvGib) 0.0) (ne $.Values.engine "cuda") -}}
{{- fail (printf "%s: kvGib is 0; engine %s does not size its pool by itself" $set $.Values.engine) -}}
{{- end -}}
{{- if and (gt (int .config.threads) 0) (eq $.Values.engine "cuda") -}}
{{- fail (printf "%s: threads is %d; only engine cpu takes it" $set (int .config.threads)) -}}
{{- end -}}
{{- $ports := list (int $plane.controlPort) -}}
{{- range $port := list (int .config.port) (int .config.metricsPort) -}}
{{- if has $port $ports }}{{ fail (printf "%s: port %d is taken twice" $set $port) }}{{ end -}}
{{- $ports = append $ports $port -}}
{{- end -}}
{{- range $port := $ports -}}
{{- if and (ge $port (int $plane.firstPort)) (le $port (int $plane.lastPort)) -}}
{{- fail (printf "%s: port %d lies in UCX's range, kvPlane.firstPort %d to lastPort %d" $set $port (int $plane.firstPort) (int $plane.lastPort)) -}}
{{- end -}}
{{- end -}}
{{- if and .config.autoscaling.enabled (gt (int .config.autoscaling.min) (int .config.autoscaling.max)) -}}
{{- fail (printf "%s.autoscaling: min is %d, more than max, %d" $set (int .config.autoscaling.min) (int .config.autoscaling.max)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
