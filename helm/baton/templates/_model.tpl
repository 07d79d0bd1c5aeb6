{{/* Where a model's files come from. */}}

{{/* Path of the model inside the worker: {root, model}. */}}
{{- define "baton.modelPath" -}}
{{- $mount := .root.Values.modelMountPath -}}
{{- if .model.image -}}
{{ .model.image.path }}
{{- else if .model.claim -}}
{{ printf "%s/%s" $mount (default "" .model.claim.path) | trimSuffix "/" }}
{{- else -}}
{{- $revision := default "main" .model.hub.revision -}}
{{- $folder := printf "%s/models/%s%s" $mount .model.hub.repository (ternary "" (printf "@%s" ($revision | replace "/" "_")) (eq $revision "main")) -}}
{{ ternary (printf "%s/%s" $folder (default "" .model.hub.gguf)) $folder (not (empty .model.hub.gguf)) }}
{{- end -}}
{{- end -}}

{{/* The claim that downloads go to, or "": {root, model}. */}}
{{- define "baton.hubClaim" -}}
{{- with .model.hub -}}
{{- with .claim -}}
{{- if .existing -}}
{{ .existing }}
{{- else if .create -}}
{{ include "baton.fullname" $.root }}-{{ $.model.name }}-model
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "baton.modelVolume" -}}
{{- if .model.claim }}
- name: model
  persistentVolumeClaim:
    claimName: {{ .model.claim.name }}
    readOnly: true
{{- else if .model.hub }}
- name: model
  {{- with include "baton.hubClaim" . }}
  persistentVolumeClaim:
    claimName: {{ . }}
  {{- else }}
  emptyDir:
    {{- with .model.hub.size }}
    sizeLimit: {{ . }}
    {{- else }} {}
    {{- end }}
  {{- end }}
{{- end }}
{{- end -}}

{{- define "baton.modelInit" -}}
{{- with .model.hub }}
initContainers:
  - name: model
    image: {{ $.root.Values.image.model }}:{{ include "baton.tag" $.root }}
    imagePullPolicy: {{ $.root.Values.image.pullPolicy }}
    args:
      - get-model.sh
      - {{ .repository }}
      {{- with .revision }}
      - --revision={{ . }}
      {{- end }}
      {{- with .gguf }}
      - --gguf={{ . }}
      {{- end }}
    env:
      - {name: HOME, value: /tmp}
      - {name: BATON_CACHE, value: {{ $.root.Values.modelMountPath }}}
      {{- with .endpoint }}
      - {name: HF_ENDPOINT, value: {{ . | quote }}}
      {{- end }}
      {{- with .tokenSecret }}
      - name: HF_TOKEN
        valueFrom:
          secretKeyRef: {name: {{ .name }}, key: {{ .key }}}
      {{- end }}
    resources:
      requests: {cpu: 100m, memory: 256Mi}
      limits: {memory: 1Gi}
    securityContext:
      {{- include "baton.containerSecurity" nil | nindent 6 }}
    terminationMessagePolicy: FallbackToLogsOnError
    volumeMounts:
      - {name: model, mountPath: {{ $.root.Values.modelMountPath }}}
      - {name: tmp, mountPath: /tmp}
{{- end }}
{{- end -}}
