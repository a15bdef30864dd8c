{{- define "delivery-watch.fullname" -}}
{{- $name := ternary .Release.Name (printf "%s-%s" .Release.Name .Chart.Name) (contains .Chart.Name .Release.Name) }}
{{- .Values.fullnameOverride | default $name }}
{{- end }}

{{/* Name of the resources that differ between one process and a leader with standbys. */}}
{{- define "delivery-watch.workload" -}}
{{- include "delivery-watch.fullname" . }}{{ if .Values.postgres.enabled }}-replicas{{ end }}
{{- end }}

{{- define "delivery-watch.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (ternary (include "delivery-watch.workload" .) "default" .Values.serviceAccount.create) }}
{{- end }}

{{/* The rules expect this name as the job, also if a parent chart has an alias for this one. */}}
{{- define "delivery-watch.selector" -}}
app.kubernetes.io/name: delivery-watch
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "delivery-watch.labels" -}}
{{ include "delivery-watch.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "delivery-watch.podSelector" -}}
{{ include "delivery-watch.selector" . }}
{{- if .Values.postgres.enabled }}
app.kubernetes.io/component: replica
{{- end }}
{{- end }}

{{/* Not empty if the agent has a configuration file. */}}
{{- define "delivery-watch.hasFile" -}}
{{- if or .Values.config .Values.existingConfigMap }}true{{ end }}
{{- end }}

{{/* config.yaml: the values, with what the pods require. */}}
{{- define "delivery-watch.config" -}}
{{- $config := deepCopy .Values.config }}
{{- $server := $config.server | default dict }}
{{- $required := dict "listen" "0.0.0.0:10922" "public" (and .Values.networkPolicy.enabled (not .Values.ingress.enabled)) "probesListen" "0.0.0.0:10923" }}
{{- if .Values.postgres.enabled }}
{{- $_ := set $required "replicaUrl" (dict "env" "REPLICA_URL") }}
{{- $store := $config.store | default dict }}
{{- $_ := set $store "kind" "postgres" }}
{{- $_ := set $store "url" ($store.url | default (dict "env" "DATABASE_URL")) }}
{{- $_ := set $config "store" $store }}
{{- end }}
{{- range $key, $value := $required }}
{{- if not (hasKey $server $key) }}{{ $_ := set $server $key $value }}{{ end }}
{{- end }}
{{- $_ := set $config "server" $server }}
{{- toYaml $config }}
{{- end }}

{{/* Checksum of the settings that a reload refuses: see src/agent/reload.ts. */}}
{{- define "delivery-watch.fixed" -}}
{{- $config := include "delivery-watch.config" . | fromYaml }}
{{- dict "server" (pick $config.server "listen" "probesListen" "replicaUrl" "webConfigFile") "store" (omit ($config.store | default dict) "history") | toJson | sha256sum }}
{{- end }}

{{- define "delivery-watch.env" -}}
{{- if not (include "delivery-watch.hasFile" .) }}
{{- range list "DELIVERY_URL" "DELIVERY_TOKEN" }}
- name: {{ . }}
  valueFrom: { secretKeyRef: { name: {{ $.Values.existingSecret | default (include "delivery-watch.fullname" $) | quote }}, key: {{ . }} } }
{{- end }}
{{- end }}
{{- if .Values.postgres.enabled }}
{{- if not (dig "store" "url" "" (.Values.config | default dict)) }}
- name: DATABASE_URL
  valueFrom:
    secretKeyRef:
      name: {{ .Values.postgres.existingSecret | default (printf "%s-database" (include "delivery-watch.fullname" .)) | quote }}
      key: url
{{- end }}
- name: POD_IP
  valueFrom: { fieldRef: { fieldPath: status.podIP } }
# Kubernetes expands only variables that are defined earlier in the list.
- name: REPLICA_URL
  value: {{ .Values.postgres.replicaUrl | quote }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Contradictions that the schema cannot describe. */}}
{{- define "delivery-watch.check" -}}
{{- $name := include "delivery-watch.fullname" . }}
{{- /* Names of Services, with room for the suffixes of resources, and of the pods' label controller-revision-hash. */}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]{0,41}[a-z0-9])?$" $name) }}
{{- fail (printf "resources cannot be named %s: set fullnameOverride to at most 43 characters a-z, 0-9 and -, starting with a letter" $name) }}
{{- end }}
{{- if and .Values.config .Values.existingConfigMap }}
{{- fail "set either config or existingConfigMap" }}
{{- end }}
{{- if and .Values.config (not .Values.config.accounts) (not .Values.config.accountFiles) }}
{{- fail "config.accounts is required; without config, the Secret names the account" }}
{{- end }}
{{- if and .Values.postgres.enabled (not (include "delivery-watch.hasFile" .)) }}
{{- fail "postgres.enabled needs config or existingConfigMap" }}
{{- end }}
{{- $config := .Values.config | default dict }}
{{- $kind := dig "store" "kind" "" $config }}
{{- if and $kind (ne .Values.postgres.enabled (eq $kind "postgres")) }}
{{- fail "config.store.kind contradicts postgres.enabled" }}
{{- end }}
{{- with .Values.persistence }}
{{- if and .existingClaim (or $.Values.postgres.enabled (not .enabled)) }}
{{- fail "persistence.existingClaim needs persistence.enabled without postgres.enabled" }}
{{- end }}
{{- end }}
{{- $names := list }}
{{- range include "delivery-watch.env" . | fromYamlArray }}
{{- if has .name $names }}
{{- fail (printf "extraEnv must not repeat the variable %s" .name) }}
{{- end }}
{{- $names = append $names .name }}
{{- end }}
{{- if and .Values.serviceAccount.annotations (not .Values.serviceAccount.create) }}
{{- fail "serviceAccount.annotations needs serviceAccount.create" }}
{{- end }}
{{- if and .Values.prometheusRule.slo .Values.prometheusRule.groups }}
{{- fail "set either prometheusRule.slo or prometheusRule.groups" }}
{{- end }}
{{- if and .Values.serviceMonitor.enabled .Values.podMonitor.enabled }}
{{- fail "enable either serviceMonitor or podMonitor: with both, Prometheus scrapes each pod twice" }}
{{- end }}
{{- if and .Values.ingress.enabled (not .Values.ingress.hosts) }}
{{- fail "ingress.hosts is required" }}
{{- end }}
{{- $server := $config.server | default dict }}
{{- if and .Values.ingress.enabled (not .Values.existingConfigMap) (not $server.webConfigFile) (not (hasKey $server "public")) }}
{{- fail "ingress.enabled needs config.server.webConfigFile, or config.server.public: true if the Ingress authenticates users" }}
{{- end }}
{{- if and (or .Values.prometheusRule.enabled .Values.dashboards.enabled) (not (.Files.Get "files/rules/alerting.yaml")) }}
{{- fail "the chart's folder lacks rules and dashboards: its symbolic link `files` was not copied" }}
{{- end }}
{{- end }}
