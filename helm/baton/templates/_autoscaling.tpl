{{/* How many replicas a set of workers should have, in PromQL: {root, model, role, config}. */}}

{{- define "baton.series" -}}
role={{ .role | quote }},model={{ include "baton.servedName" .model | quote }},namespace={{ .root.Release.Namespace | quote }}
{{- end -}}

{{/* Prefill: a queue may be any length, so replicas follow it in proportion. */}}
{{- define "baton.prefillReplicas" -}}
ceil(sum(baton_waiting_prompt_tokens{ {{- include "baton.series" . -}} }) / {{ int64 .config.autoscaling.queuedTokens }})
{{- end -}}

{{/* Decode: the batch cannot be more than full, so a proportion would never ask for more. A quarter more replicas when every
one is full (or KV is short); a quarter fewer when they are half-filled and the rest would not be full. */}}
{{- define "baton.decodeReplicas" -}}
{{- $scaling := .config.autoscaling -}}
{{- $series := include "baton.series" . -}}
{{- $running := printf "baton_requests_running{%s}" $series -}}
{{- $kv := printf "baton_kv_usage_ratio{%s}" $series -}}
{{- $full := mulf .config.maxBatch $scaling.fullShare -}}
{{- $half := mulf .config.maxBatch $scaling.halfShare -}}
{{- $more := printf "clamp_max((min(%s) >= bool %v) + (avg(%s) >= bool %v), 1)" $running $full $kv $scaling.kvShare -}}
{{- $fewer := printf "(avg(%s) < bool %v) * (avg(%s) < bool %v) * (sum(%s) < bool %v * floor(0.75 * count(%s)))" $running $half $kv (divf $scaling.kvShare 2) $running $full $running -}}
ceil(count({{ $running }}) * (1 + 0.25 * {{ $more }})) - (count({{ $running }}) - floor(0.75 * count({{ $running }}))) * {{ $fewer }}
{{- end -}}

{{- define "baton.replicas" -}}
{{- if eq .role "prefill" }}{{ include "baton.prefillReplicas" . }}{{ else }}{{ include "baton.decodeReplicas" . }}{{ end -}}
{{- end -}}

{{/* Fewer replicas only after a while, one at a time: each ends by a drain. */}}
{{- define "baton.behavior" -}}
scaleUp:
  stabilizationWindowSeconds: 30
  policies:
    - {type: Percent, value: 100, periodSeconds: 60}
scaleDown:
  stabilizationWindowSeconds: {{ .config.autoscaling.scaleDownSeconds }}
  policies:
    - {type: Pods, value: 1, periodSeconds: 60}
{{- end -}}
