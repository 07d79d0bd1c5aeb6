{{/* Parts of pods. */}}

{{/* Free flags as arguments. A whole number must not be written as 1e+06. */}}
{{- define "baton.flags" -}}
{{- range $name, $value := . }}
{{- $number := or (kindIs "float64" $value) (kindIs "int64" $value) (kindIs "int" $value) }}
{{- if and $number (eq (float64 $value) (floor $value)) }}
- {{ printf "--%s=%d" $name (int64 $value) | quote }}
{{- else }}
- {{ printf "--%s=%v" $name $value | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Where spans go: flags of every program. */}}
{{- define "baton.tracing" -}}
{{- if .Values.tracing.endpoint }}
- --otlp_endpoint={{ .Values.tracing.endpoint }}
{{- if .Values.tracing.secret }}
- --otlp_tls_ca=/etc/baton/otlp-tls/ca.crt
{{- if .Values.tracing.clientAuth }}
- --otlp_tls_cert=/etc/baton/otlp-tls/tls.crt
- --otlp_tls_key=/etc/baton/otlp-tls/tls.key
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* How a probe asks: {probe: what baton.probes takes, service ("" is liveness)}. Kubernetes' own gRPC probes know no TLS, so
there the command line asks from inside. */}}
{{- define "baton.ask" -}}
{{- $probe := .probe -}}
{{- if $probe.secret -}}
exec:
  command:
    - baton
    - health
    - 127.0.0.1:{{ $probe.port }}
    {{- with .service }}
    - {{ . }}
    {{- end }}
    - --tls_ca=/etc/baton/{{ $probe.mount }}/ca.crt
    {{- if $probe.clientAuth }}
    - --tls_cert=/etc/baton/{{ $probe.mount }}/tls.crt
    - --tls_key=/etc/baton/{{ $probe.mount }}/tls.key
    {{- end }}
    - --tls_name={{ $probe.serverName }}
    - --timeout={{ $probe.root.Values.probes.timeoutSeconds }}
{{- else -}}
grpc:
  port: {{ $probe.port }}
  {{- with .service }}
  service: {{ . }}
  {{- end }}
{{- end }}
timeoutSeconds: {{ $probe.root.Values.probes.timeoutSeconds }}
{{- end -}}

{{/* The three probes: {root, port, service (readiness), startupService, startupSeconds}, and for TLS {secret, mount, serverName,
clientAuth}. The startup probe holds the others back, so no delay is guessed; liveness asks about the process alone,
readiness whether it can serve. */}}
{{- define "baton.probes" -}}
{{- $probes := .root.Values.probes -}}
startupProbe:
  {{- include "baton.ask" (dict "probe" . "service" .startupService) | nindent 2 }}
  periodSeconds: {{ $probes.startupPeriodSeconds }}
  failureThreshold: {{ divf .startupSeconds $probes.startupPeriodSeconds | ceil | int }}
livenessProbe:
  {{- include "baton.ask" (dict "probe" . "service" "") | nindent 2 }}
  periodSeconds: {{ $probes.livenessPeriodSeconds }}
  failureThreshold: {{ $probes.failureThreshold }}
readinessProbe:
  {{- include "baton.ask" (dict "probe" . "service" .service) | nindent 2 }}
  periodSeconds: {{ $probes.readinessPeriodSeconds }}
  failureThreshold: {{ $probes.failureThreshold }}
{{- end -}}

{{/* {root, drain}. The kubelet's own pause where it has one, else a program of the image; a shell is never needed. */}}
{{- define "baton.preStop" -}}
{{- if gt (int .drain.preStopSeconds) 0 }}
lifecycle:
  preStop:
    {{- if semverCompare ">=1.30.0-0" .root.Capabilities.KubeVersion.Version }}
    sleep:
      seconds: {{ .drain.preStopSeconds }}
    {{- else }}
    exec:
      command: [sleep, {{ .drain.preStopSeconds | toString | quote }}]
    {{- end }}
{{- end }}
{{- end -}}

{{- define "baton.gracePeriod" -}}
{{ add .preStopSeconds .seconds .marginSeconds }}
{{- end -}}

{{- define "baton.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
  {{- with . }}
  add: {{ toJson . }}
  {{- end }}
{{- end -}}

{{/* Fields of a pod that all roles share: {root, config, selector}. */}}
{{- define "baton.placement" -}}
serviceAccountName: {{ include "baton.serviceAccountName" .root }}
automountServiceAccountToken: false
# A Service called "baton" would put BATON_PORT into the environment, which the programs would take for their flag.
enableServiceLinks: false
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
securityContext:
  {{- toYaml .root.Values.podSecurityContext | nindent 2 }}
{{- with .config.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .config.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .config.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .config.topologySpread }}
topologySpreadConstraints:
  {{- range . }}
  - topologyKey: {{ .topologyKey }}
    maxSkew: {{ .maxSkew }}
    whenUnsatisfiable: {{ .whenUnsatisfiable }}
    labelSelector:
      matchLabels:
        {{- $.selector | nindent 8 }}
  {{- end }}
{{- end }}
{{- end -}}

{{- define "baton.routerTlsName" -}}
{{ default (printf "%s.%s.svc" (include "baton.routerName" .) .Release.Namespace) .Values.tls.routerName }}
{{- end -}}

{{/* {volume name: secret or ""}. */}}
{{- define "baton.tlsVolumes" -}}
{{- range $name, $secret := . }}
{{- with $secret }}
- name: {{ $name }}
  secret:
    secretName: {{ . }}
{{- end }}
{{- end }}
{{- end -}}
