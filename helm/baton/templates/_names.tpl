{{/* Names and labels. Names are cut so that NAME-MODEL-prefill fits 63 characters. */}}

{{- define "baton.fullname" -}}
{{- $chart := default .Chart.Name .Values.nameOverride -}}
{{- $name := default (ternary .Release.Name (printf "%s-%s" .Release.Name $chart) (contains $chart .Release.Name)) .Values.fullnameOverride -}}
{{- $name | trunc 34 | trimSuffix "-" -}}
{{- end -}}

{{- define "baton.routerName" -}}
{{ include "baton.fullname" . }}-router
{{- end -}}

{{/* The name that workers of a role are found by: {root, model, role}. */}}
{{- define "baton.workerName" -}}
{{ include "baton.fullname" .root }}-{{ .model.name }}-{{ .role }}
{{- end -}}

{{- define "baton.servedName" -}}
{{ default .name .servedName }}
{{- end -}}

{{- define "baton.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{ default (include "baton.fullname" .) .Values.serviceAccount.name }}
{{- else -}}
{{ default "default" .Values.serviceAccount.name }}
{{- end -}}
{{- end -}}

{{- define "baton.tag" -}}
{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}

{{/* What never changes of a set of pods: {root, role, model (workers)}. */}}
{{- define "baton.selector" -}}
app.kubernetes.io/name: baton
app.kubernetes.io/instance: {{ .root.Release.Name }}
baton/role: {{ .role }}
{{- with .model }}
baton/model: {{ .name }}
{{- end }}
{{- end -}}

{{- define "baton.labels" -}}
{{ include "baton.selector" . }}
{{ include "baton.commonLabels" .root }}
{{- end -}}

{{- define "baton.commonLabels" -}}
app.kubernetes.io/version: {{ include "baton.tag" . | quote }}
app.kubernetes.io/part-of: baton
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Labels of objects that belong to no role. */}}
{{- define "baton.releaseLabels" -}}
app.kubernetes.io/name: baton
app.kubernetes.io/instance: {{ .Release.Name }}
{{ include "baton.commonLabels" . }}
{{- end -}}

{{/* Of everything that the numbers of a model depend on. Pods with unequal fingerprints may not be paired, and routers see
to it by the hashes that the programs themselves report; the label shows an operator which pods belong together. */}}
{{- define "baton.fingerprint" -}}
{{- $of := dict "image" .root.Values.image.worker "tag" (include "baton.tag" .root) "engine" .root.Values.engine
  "model" (omit .model "prefill" "decode") -}}
{{ $of | toJson | sha256sum | trunc 16 }}
{{- end -}}

{{/* {base, over}: over's values win, whatever they are; maps are merged. YAML. (mergeOverwrite skips false and 0.) */}}
{{- define "baton.merge" -}}
{{- $out := deepCopy .base -}}
{{- range $key, $value := .over -}}
{{- if and (kindIs "map" $value) (kindIs "map" (index $out $key)) -}}
{{- $_ := set $out $key (fromYaml (include "baton.merge" (dict "base" (index $out $key) "over" $value))) -}}
{{- else -}}
{{- $_ := set $out $key $value -}}
{{- end -}}
{{- end -}}
{{ toYaml $out }}
{{- end -}}

{{/* All sets of workers as a YAML list of {model, role, name, config}. */}}
{{- define "baton.workerSets" -}}
{{- range $model := .Values.models }}
{{- range $role := list "prefill" "decode" }}
{{- $config := fromYaml (include "baton.merge" (dict "base" (index $.Values $role) "over" (default dict (index $model $role)))) }}
- {{ dict "model" $model "role" $role "config" $config
    "name" (include "baton.workerName" (dict "root" $ "model" $model "role" $role)) | toJson }}
{{- end }}
{{- end }}
{{- end -}}
