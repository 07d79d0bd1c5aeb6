{{/* A worker and its pairs, the other role's workers of the same model: {root, model, role}. */}}
{{- define "baton.pairAffinity" -}}
{{- $other := include "baton.selector" (dict "root" .root "model" .model "role" (ternary "decode" "prefill" (eq .role "prefill"))) -}}
{{- $pairs := .root.Values.pairs -}}
{{- if or (ne $pairs.antiAffinity "none") (ne $pairs.sameZone "none") }}
affinity:
  {{- if ne $pairs.antiAffinity "none" }}
  podAntiAffinity:
    {{- if eq $pairs.antiAffinity "required" }}
    requiredDuringSchedulingIgnoredDuringExecution:
      - topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            {{- $other | nindent 12 }}
    {{- else }}
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 50
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels:
              {{- $other | nindent 14 }}
    {{- end }}
  {{- end }}
  {{- if ne $pairs.sameZone "none" }}
  podAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: topology.kubernetes.io/zone
          labelSelector:
            matchLabels:
              {{- $other | nindent 14 }}
  {{- end }}
{{- end }}
{{- end -}}
