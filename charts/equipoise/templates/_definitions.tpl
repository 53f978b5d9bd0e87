{{- define "equipoise.name" -}}
{{ .Values.nameOverride | default "equipoise" }}
{{- end }}

{{- /* Not the name of the release: only one installation works in a cluster. */}}
{{- define "equipoise.fullname" -}}
{{ .Values.fullnameOverride | default "equipoise" }}
{{- end }}

{{- define "equipoise.labels" -}}
{{- $labels := dict
  "helm.sh/chart" (print .Chart.Name "-" (.Chart.Version | replace "+" "_"))
  "app.kubernetes.io/instance" .Release.Name
  "app.kubernetes.io/version" .Chart.AppVersion
  "app.kubernetes.io/managed-by" .Release.Service
  "app.kubernetes.io/part-of" "equipoise" }}
{{- merge $labels .Values.commonLabels | toYaml }}
{{- end }}

{{- /* Of (list image the-default-of-its-tag root). A digest replaces the tag. */}}
{{- define "equipoise.imageReference" -}}
{{- $image := index . 0 }}
{{- $registry := (index . 2).Values.global.imageRegistry | default $image.registry }}
{{- with $registry }}{{ . }}/{{ end }}{{ $image.repository }}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default (index . 1) }}{{ end }}
{{- end }}

{{- define "equipoise.image" -}}
{{ include "equipoise.imageReference" (list .Values.image .Chart.AppVersion .) | toJson }}
{{- end }}

{{- define "equipoise.natsImage" -}}
{{ include "equipoise.imageReference" (list .Values.nats.image "" .) | toJson }}
{{- end }}

{{- /* Without what a vendor appends: v1.33.4-gke.100 is Kubernetes v1.33.4. */}}
{{- define "equipoise.schedulerImage" -}}
{{- $version := regexFind "^v[0-9]+\\.[0-9]+\\.[0-9]+" .Capabilities.KubeVersion.Version }}
{{- include "equipoise.imageReference" (list .Values.secondScheduler.image $version .) | toJson }}
{{- end }}

{{- define "equipoise.pullSecrets" -}}
{{- with concat .Values.global.imagePullSecrets .Values.image.pullSecrets }}{{ toYaml . }}{{ end }}
{{- end }}

{{- /* Of (list root service constraints): the constraints, each with the selector of the service. */}}
{{- define "equipoise.selector" -}}
matchLabels:
  app.kubernetes.io/name: {{ include "equipoise.name" (index . 0) }}
  app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "equipoise.spread" -}}
{{- $selector := include "equipoise.selector" . | fromYaml }}
{{- range index . 2 }}
{{ list (merge (dict "labelSelector" $selector) .) | toYaml }}
{{- end }}
{{- end }}

{{- /* Replicas prefer different zones. As a second topology spread constraint, the zone would switch off the first one:
kube-scheduler scores only nodes that have the labels of all of them. */}}
{{- define "equipoise.affinity" -}}
{{- if index . 2 }}
{{- toYaml (index . 2) }}
{{- else -}}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: topology.kubernetes.io/zone
        labelSelector: {{- include "equipoise.selector" . | nindent 10 }}
{{- end }}
{{- end }}

{{- define "equipoise.natsUrl" -}}
{{ ternary "tls://nats:4222" .Values.nats.url .Values.nats.enabled }}
{{- end }}

{{- /* Of the NATS servers in nats.url, separated by commas. */}}
{{- define "equipoise.natsPorts" -}}
{{- $ports := list }}
{{- range splitList "," .Values.nats.url }}
{{- $ports = append $ports (regexFind ":[0-9]+/?$" . | default ":4222" | trimSuffix "/" | trimPrefix ":") }}
{{- end }}
{{- $ports | uniq | join "," }}
{{- end }}

{{- /* Whether the API server has the policy that adds placement hints. Without a cluster, only its version is known. */}}
{{- define "equipoise.hintsPolicyServed" -}}
{{- $cluster := .Capabilities.KubeVersion.Version }}
{{- $served := .Capabilities.APIVersions.Has (print (include "equipoise.hintsApiVersion" .) "/MutatingAdmissionPolicy") }}
{{- if and (semverCompare ">=1.34.0-0" $cluster) (or $served (not (lookup "v1" "Namespace" "" "kube-system"))) }}true{{ end }}
{{- end }}

{{- define "equipoise.hintsApiVersion" -}}
admissionregistration.k8s.io/{{ ternary "v1" "v1beta1" (semverCompare ">=1.36.0-0" .Capabilities.KubeVersion.Version) }}
{{- end }}

{{- /* What adds placement hints to pods: policy or webhook. */}}
{{- define "equipoise.hintsAdmission" -}}
{{- $cluster := .Capabilities.KubeVersion.Version }}
{{- $served := include "equipoise.hintsPolicyServed" . }}
{{- if eq .Values.hints.admission "auto" }}
{{- ternary "policy" "webhook" (and (semverCompare ">=1.36.0-0" $cluster) (eq $served "true")) }}
{{- else if and (eq .Values.hints.admission "policy") (not $served) }}
{{- fail (print "hints.admission: the API server (" $cluster ") has no MutatingAdmissionPolicy: it needs Kubernetes 1.36, or 1.34 with the feature gate MutatingAdmissionPolicy and --runtime-config=admissionregistration.k8s.io/v1beta1=true. Use hints.admission: webhook") }}
{{- else }}{{ .Values.hints.admission }}{{ end }}
{{- end }}

{{- /* The level; empty if none is set. In a YAML file, `off` is false. */}}
{{- define "equipoise.movesLevel" -}}
{{ ternary "off" .Values.moves (eq (toString .Values.moves) "false") }}
{{- end }}

{{- /* As equipoise.contracts.configuration.moves decides it. */}}
{{- define "equipoise.deletionCosts" -}}
{{- $level := include "equipoise.movesLevel" . }}
{{- if eq $level "off" }}none{{ else }}{{ .Values.deletionCosts | default (ternary "hottestNodes" "none" (ne $level "")) }}{{ end }}
{{- end }}

{{- define "equipoise.surge" -}}
{{- $level := include "equipoise.movesLevel" . }}
{{- if has $level (list "off" "scaleDowns") }}none{{ else }}{{ .Values.surge | default (ternary "always" "none" (ne $level "")) }}{{ end }}
{{- end }}

{{- /* The mode of consolidation. */}}
{{- define "equipoise.consolidation" -}}
{{- $descheduler := .Values.config.descheduler | default dict }}
{{- $consolidation := $descheduler.consolidation | default dict }}
{{- $consolidation.mode | default "off" }}
{{- end }}

{{- /* equipoise.yaml. What is set here cannot be set in `config`. */}}
{{- define "equipoise.configuration" -}}
{{- $nats := dict "url" (include "equipoise.natsUrl" .) "replicas" .Values.nats.replicas }}
{{- if .Values.nats.tls.existingSecret }}
{{- $_ := set $nats "tls" (dict "caFile" "/run/secrets/nats/ca.crt") }}
{{- end }}
{{- $scorer := dict }}
{{- if not .Values.extender.enabled }}
{{- $scorer = dict "listen" "127.0.0.1:8888" }}
{{- else if .Values.extender.tls.existingSecret }}
{{- $scorer = dict "extender" (dict "tls" (dict
  "certificateFile" "/run/secrets/extender/tls.crt"
  "keyFile" "/run/secrets/extender/tls.key"
  "clientCaFile" "/run/secrets/extender/ca.crt")) }}
{{- end }}
{{- $ours := dict
  "apiVersion" "equipoise.dev/v1alpha1"
  "kind" "EquipoiseConfiguration"
  "nats" $nats
  "kubernetes" (dict "namespace" .Release.Namespace)
  "placement" (dict "extender" .Values.extender.enabled "hints" .Values.hints.enabled)
  "annotator" (dict "crane" .Values.crane.enabled)
  "scorer" $scorer
  "binder" (dict "evict" (eq .Values.mode "evict")) }}
{{- with include "equipoise.movesLevel" . }}
{{- $_ := set $ours "moves" (dict "level" .) }}
{{- end }}
{{- with .Values.deletionCosts }}
{{- $_ := set $ours.annotator "deletionCosts" . }}
{{- end }}
{{- with .Values.surge }}
{{- $_ := set $ours "surge" (dict "mode" .) }}
{{- end }}
{{- if .Values.hints.enabled }}
{{- $_ := set $ours.annotator "hints" (dict "admission" (include "equipoise.hintsAdmission" .)) }}
{{- end }}
{{- if .Values.reclaimer.enabled }}
{{- $_ := set $ours "reclaimer" (dict "enabled" true) }}
{{- end }}
{{- if and .Values.namespaces (not .Values.config.namespaces) }}
{{- $_ := set $ours "namespaces" (dict "include" .Values.namespaces) }}
{{- end }}
{{- mergeOverwrite (deepCopy .Values.config) $ours | toYaml }}
{{- end }}

{{- /* Of the agent, which reads no section of another program. */}}
{{- define "equipoise.agentConfiguration" -}}
{{- $ours := dict
  "apiVersion" "equipoise.dev/v1alpha1"
  "kind" "EquipoiseConfiguration"
  "agent" (dict "cgroupRoot" "/host/cgroup" "evict" .Values.agent.evictions) }}
{{- mergeOverwrite (pick (deepCopy .Values.config) "logging" "agent") $ours | toYaml }}
{{- end }}

{{- /* Of the users of NATS. */}}
{{- define "equipoise.permissions" -}}
{{- .Files.Get (ternary "files/permissions-reclaimer.conf" "files/permissions.conf" .Values.reclaimer.enabled) }}
{{- end }}

{{- /* Of kube-scheduler: k8s/scheduler/extender.yaml has the same entry. `serverName` is a name of the certificate. */}}
{{- define "equipoise.schedulerConfiguration" -}}
{{- $secured := .Values.extender.tls.existingSecret -}}
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: false
profiles:
  - schedulerName: equipoise
extenders:
  - urlPrefix: http{{ if $secured }}s{{ end }}://{{ include "equipoise.fullname" . }}-scorer.{{ .Release.Namespace }}.svc:8888
    {{- if $secured }}
    enableHTTPS: true
    tlsConfig:
      caFile: /etc/equipoise/extender/ca.crt
      certFile: /etc/equipoise/extender/tls.crt
      keyFile: /etc/equipoise/extender/tls.key
      serverName: equipoise-scorer.equipoise-system.svc
    {{- end }}
    prioritizeVerb: prioritize
    weight: 5
    nodeCacheCapable: true
    ignorable: true
    httpTimeout: 200ms
{{- end }}
