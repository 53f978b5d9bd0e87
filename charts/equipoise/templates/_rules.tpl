{{- /*
Rules of the configuration over several settings, with the words of the services: the JSON schema checks each setting
alone. `equipoise.rule.NAME` is what `__post_init__` of the section NAME checks; `.` are its settings with their
defaults. It renders the first fault, or nothing. files/sections.json has where sections can be; tests/deployment/test_chart_rules.py
compares every rule with the code.
*/}}

{{- /* Of (dict "document" equipoise.yaml "files" .Files): a line for each fault, with its path. */}}
{{- define "equipoise.faults" -}}
{{- $known := .files.Get "files/sections.json" | fromJson }}
{{- $document := .document }}
{{- $faults := list }}
{{- range $name, $section := $known.document }}
{{- $value := index $document $name }}
{{- if kindIs "map" $value }}
{{- $path := ternary $name (print "config." $name) (eq $name "nats") }}
{{- $faults = append $faults (include "equipoise.sectionFaults" (dict "known" $known "section" $section "path" $path "value" $value)) }}
{{- end }}
{{- end }}
{{- $faults = $faults | join "" }}
{{- if $faults }}{{ $faults }}{{ else }}{{ include "equipoise.conflicts" (dict "document" $document "constants" $known.constants "thresholds" $known.sections.Thresholds) }}{{ end }}
{{- end }}

{{- /* Of a section and those below it. */}}
{{- define "equipoise.sectionFaults" -}}
{{- $given := . }}
{{- $section := index .known.sections .section }}
{{- range $name, $field := $section.fields }}
{{- $value := index $given.value $name }}
{{- $path := print $given.path "." $name }}
{{- $below := list }}
{{- if and (kindIs "map" $value) $field.keys }}
{{- range $key, $item := $value }}{{ $below = append $below (list (print $path "." $key) $item) }}{{ end }}
{{- else if kindIs "map" $value }}
{{- $below = list (list $path $value) }}
{{- else if kindIs "slice" $value }}
{{- range $place, $item := $value }}{{ $below = append $below (list (printf "%s[%d]" $path $place) $item) }}{{ end }}
{{- end }}
{{- range $below }}
{{- $kind := get $field.kinds (hasKey $field.kinds "" | ternary "" (index . 1).name) }}
{{- if $kind }}{{ include "equipoise.sectionFaults" (dict "known" $given.known "section" $kind "path" (index . 0) "value" (index . 1)) }}{{ end }}
{{- end }}
{{- end }}
{{- if $section.rule }}
{{- $settings := deepCopy $section.defaults }}
{{- range $name, $value := .value }}{{ $_ := set $settings $name $value }}{{ end }}
{{- $_ := set $settings "constants" .known.constants }}
{{- with include (print "equipoise.rule." .section) $settings | trim }}{{ $given.path }}: {{ . }}
{{ end }}
{{- end }}
{{- end }}

{{- /* Of a duration such as 1h30m. */}}
{{- define "equipoise.seconds" -}}
{{- $seconds := 0.0 }}
{{- range regexFindAll "[0-9.]+(ms|s|m|h|d)" . -1 }}
{{- $unit := regexFind "[a-z]+" . }}
{{- $seconds = addf $seconds (mulf (trimSuffix $unit . | float64) (get (dict "ms" 0.001 "s" 1.0 "m" 60.0 "h" 3600.0 "d" 86400.0) $unit)) }}
{{- end }}
{{- $seconds }}
{{- end }}

{{- /* Of (dict "low" … "high" … "lowName" … "highName" … "constants" …): thresholds with less than the least gap. */}}
{{- define "equipoise.tooClose" -}}
{{- $given := . }}
{{- $fault := "" }}
{{- range .constants.resources }}
{{- $low := index $given.low . }}{{ $high := index $given.high . }}
{{- if not (or $fault (kindIs "invalid" $low) (kindIs "invalid" $high)) }}
{{- if and (eq (float64 $low) 100.0) (eq (float64 $high) 100.0) }}
{{- $fault = printf "%s.%s and %s.%s are 100: to ignore %s, leave %s out of both" $given.lowName . $given.highName . . . }}
{{- else if gt (addf $low $given.constants.minGap) (float64 $high) }}
{{- $fault = printf "%s.%s (%.6g) must be at least %.6g points below %s.%s (%.6g), or what one move fills the next one empties: lower the one or raise the other" $given.lowName . $low $given.constants.minGap $given.highName . $high }}
{{- end }}
{{- end }}
{{- end }}
{{- $fault }}
{{- end }}

{{- define "equipoise.urlFault" -}}
{{- if not (regexMatch "^(?i)https?://([^/?#]*@)?(\\[[^\\]/?#]+\\]|[^][/?#@:]+)(:[^/?#]*)?([/?#]|$)" .url) }}url '{{ .url }}' must have the form {{ .example }}
{{- else if regexMatch "^[a-zA-Z]+://[^/?#]*@" .url }}url must hold no user and password: {{ .advice }}
{{- end }}
{{- end }}

{{- define "equipoise.rule.Nats" }}
{{- if contains "@" .url }}url must not hold a password: use user and passwordFile
{{- else if and .tls (regexMatch "(^|,)ws://" .url) }}ws:// is never encrypted: use wss:// with tls
{{- end }}
{{- end }}

{{- /* The chart sets `nats.tls`, without a client certificate. */}}
{{- define "equipoise.rule.Tls" }}{{ end }}

{{- define "equipoise.rule.LoadSettings" }}
{{- $positive := true }}{{ $refreshed := true }}{{ $ordered := true }}{{ $last := 0.0 }}{{ $names := list }}
{{- range .windows }}
{{- $length := include "equipoise.seconds" .length | float64 }}
{{- if le $length 0.0 }}{{ $positive = false }}{{ end }}
{{- if le (include "equipoise.seconds" .refreshPeriod | float64) 0.0 }}{{ $refreshed = false }}{{ end }}
{{- if lt $length $last }}{{ $ordered = false }}{{ end }}
{{- $last = $length }}{{ $names = append $names .name }}
{{- end }}
{{- if not .windows }}at least one window is needed
{{- else if not $positive }}a window must be longer than 0s
{{- else if not $refreshed }}the refreshPeriod of a window must be longer than 0s
{{- else if or (not $ordered) (lt (uniq $names | len) (len $names)) }}windows must have different names and be ordered from the shortest to the longest
{{- end }}
{{- end }}

{{- define "equipoise.rule.Thresholds" }}
{{- $given := . }}
{{- $fault := include "equipoise.tooClose" (dict "low" .low "high" .high "lowName" "low" "highName" "high" "constants" .constants) }}
{{- $fault = $fault | default (include "equipoise.tooClose" (dict "low" .prodLow "high" .prodHigh "lowName" "prodLow" "highName" "prodHigh" "constants" .constants)) }}
{{- range .constants.resources }}
{{- $whole := index $given.high . }}{{ $part := index $given.prodHigh . }}
{{- if not (or $fault (kindIs "invalid" $whole) (kindIs "invalid" $part)) }}
{{- if gt $part $whole }}
{{- $fault = printf "prodHigh.%s (%.6g) must not be above high.%s (%.6g): it could not be reached" . $part . $whole }}
{{- end }}
{{- end }}
{{- end }}
{{- $fault }}
{{- end }}

{{- define "equipoise.rule.Namespaces" }}
{{- if not (or (kindIs "invalid" .include) (kindIs "invalid" .exclude)) }}give namespaces.include or namespaces.exclude, not both
{{- end }}
{{- end }}

{{- define "equipoise.rule.Protection" }}
{{- $wrong := list }}
{{- range .statefulSets }}
{{- if not (or (eq . "*") (regexMatch "^[^/]*/[^/]*$" .)) }}{{ $wrong = append $wrong . }}{{ end }}
{{- end }}
{{- if $wrong }}statefulSets has {{ first $wrong }}, which is not of the form namespace/name
{{- end }}
{{- end }}

{{- define "equipoise.rule.PrometheusSettings" }}
{{- $custom := false }}
{{- range .custom }}{{ if . }}{{ $custom = true }}{{ end }}{{ end }}
{{- $url := include "equipoise.urlFault" (dict "url" .url "example" "http://prometheus:9090" "advice" "use basicAuthentication") }}
{{- if $url }}{{ $url }}
{{- else if and .bearerTokenFile .basicAuthentication }}set bearerTokenFile or basicAuthentication, not both
{{- else if ne (kindIs "invalid" .certFile) (kindIs "invalid" .keyFile) }}set certFile and keyFile together
{{- else if not .nodeLabels }}nodeLabels must name at least one label
{{- else if ne (eq .profile "custom") $custom }}set profile: custom and the queries under custom together, or neither
{{- else if and (eq .profile "custom") (not .custom.nodeCpu) (not .custom.nodeMemory) }}custom must hold nodeCpu or nodeMemory: otherwise no node is measured
{{- end }}
{{- end }}

{{- define "equipoise.rule.CustomQuery" }}
{{- $bare := regexReplaceAll "\"(?:[^\"\\\\]|\\\\.)*\"|'(?:[^'\\\\]|\\\\.)*'" (trim .samples) "\"\"" }}
{{- if not (contains "$window" .mean) }}mean must hold $window, as in rate(my_cpu_seconds_total[$window])
{{- else if or (not (regexMatch "(?s)^([A-Za-z_:][A-Za-z0-9_:]*(\\{.*\\})?|\\{.+\\})$" $bare)) (regexMatch "\\{(?s:.*)[][(){]" $bare) }}samples must be a plain selector, as my_cpu_seconds_total{core="0"}: '{{ .samples }}'
{{- end }}
{{- end }}

{{- define "equipoise.rule.MetricsServerSettings" }}
{{- $interval := include "equipoise.seconds" .interval | float64 }}
{{- if or (le $interval 0.0) (ge $interval (include "equipoise.seconds" .retention | float64)) }}interval must be longer than 0s and shorter than retention
{{- end }}
{{- end }}

{{- define "equipoise.rule.LoadWatcherSettings" }}
{{- $url := include "equipoise.urlFault" (dict "url" .url "example" "http://load-watcher:2020" "advice" "load-watcher needs none") }}
{{- if $url }}{{ $url }}
{{- else if le (include "equipoise.seconds" .interval | float64) 0.0 }}interval must be longer than 0s
{{- end }}
{{- end }}

{{- define "equipoise.rule.CollectorSettings" }}
{{- if not (regexMatch "^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$" .shard) }}shard '{{ .shard }}' must be a name of lower-case letters, digits and '-', as zone-a
{{- else if has (dict) .unmeasuredNodes }}unmeasuredNodes: each entry must have a label, as {pool: edge}
{{- else if regexMatch "-[0-9]+$" .shard }}
{{- $number := regexFind "[0-9]+$" .shard -}}
shard '{{ .shard }}' would be shard {{ $number }} of a collector named '{{ trimSuffix (print "-" $number) .shard }}': choose another ending
{{- end }}
{{- end }}

{{- define "equipoise.rule.MembershipSettings" }}
{{- if lt (float64 .leaseDuration) (mulf 2 .renewPeriod) }}leaseDuration must be at least twice renewPeriod
{{- end }}
{{- end }}

{{- define "equipoise.rule.WriteThreshold" }}
{{- $interval := include "equipoise.seconds" .minInterval | float64 }}
{{- if or (le $interval 0.0) (lt (include "equipoise.seconds" .refreshPeriod | float64) $interval) }}minInterval must be longer than 0s and not longer than refreshPeriod
{{- end }}
{{- end }}

{{- define "equipoise.rule.DegradeSettings" }}
{{- $keep := include "equipoise.seconds" .keep | float64 }}
{{- if or (le $keep 0.0) (ge $keep (include "equipoise.seconds" .expire | float64)) }}keep must be longer than 0s and shorter than expire
{{- end }}
{{- end }}

{{- define "equipoise.rule.ReclaimPool" }}
{{- if not .matchLabels }}matchLabels must have at least one label
{{- end }}
{{- end }}

{{- define "equipoise.rule.BandScoring" }}
{{- if le (include "equipoise.seconds" .lifetime | float64) 0.0 }}lifetime must be longer than 0s
{{- end }}
{{- end }}

{{- define "equipoise.rule.ReclaimerSettings" }}
{{- $names := list }}
{{- range .pools }}{{ $names = append $names .name }}{{ end }}
{{- if le (include "equipoise.seconds" .interval | float64) 0.0 }}interval must be longer than 0s
{{- else if le (include "equipoise.seconds" .forecast.day | float64) 0.0 }}forecast.day must be longer than 0s
{{- else if ne (len $names) (len (uniq $names)) }}pools must have different names
{{- end }}
{{- end }}

{{- define "equipoise.rule.HintSettings" }}
{{- if le (include "equipoise.seconds" .interval | float64) 0.0 }}interval must be longer than 0s
{{- end }}
{{- end }}

{{- define "equipoise.rule.HintWriteSettings" }}
{{- $validity := include "equipoise.seconds" .validity | float64 }}
{{- $interval := include "equipoise.seconds" .minInterval | float64 }}
{{- if or (le $validity 0.0) (gt $validity 600.0) }}validity must be longer than 0s and at most 10m
{{- else if or (le $interval 0.0) (gt $interval (divf $validity 4)) }}minInterval must be longer than 0s and not longer than a quarter of validity
{{- end }}
{{- end }}

{{- define "equipoise.rule.SurgeSettings" }}
{{- $timeout := include "equipoise.seconds" .readyTimeout | float64 }}
{{- if or (le $timeout 0.0) (gt $timeout 3600.0) }}readyTimeout must be longer than 0s and at most 1h
{{- end }}
{{- end }}

{{- define "equipoise.rule.BinderSettings" }}
{{- if le (include "equipoise.seconds" .maxIntentLifetime | float64) 0.0 }}maxIntentLifetime must be longer than 0s
{{- end }}
{{- end }}

{{- /* Not the time zone: Helm has no database of time zones. */}}
{{- define "equipoise.rule.WeeklyTimes" }}
{{- if not .days }}at least one day is needed (days: Mon to Sun)
{{- end }}
{{- end }}

{{- define "equipoise.rule.LeaderElection" }}
{{- if not (and (lt (mulf 1.2 .retryPeriod) (float64 .renewDeadline)) (lt .renewDeadline .leaseDuration)) }}1.2 × retryPeriod must be less than renewDeadline, and that less than leaseDuration
{{- end }}
{{- end }}

{{- define "equipoise.rule.DeschedulerSettings" }}
{{- $given := . }}
{{- $positive := true }}{{ $names := list }}{{ $unknown := list }}
{{- range list .interval .intentLifetime .replacementTimeout }}{{ if le (include "equipoise.seconds" . | float64) 0.0 }}{{ $positive = false }}{{ end }}{{ end }}
{{- range .strategies }}{{ $names = append $names .name }}{{ end }}
{{- range .workloads }}{{ if not (has . $given.constants.workloads) }}{{ $unknown = append $unknown . }}{{ end }}{{ end }}
{{- if and (kindIs "slice" .strategies) (not .strategies) }}strategies must name at least one (example: low_node_load)
{{- else if $unknown }}workloads: '{{ first $unknown }}' cannot be watched, only {{ join ", " .constants.workloads }}
{{- else if not $positive }}interval, intentLifetime and replacementTimeout must be longer than 0s
{{- else if lt (uniq $names | len) (len $names) }}strategies must not name one twice
{{- end }}
{{- end }}

{{- define "equipoise.rule.Consolidation" }}
{{- $positive := true }}
{{- range list .emptyingTimeout .removalTimeout }}{{ if le (include "equipoise.seconds" . | float64) 0.0 }}{{ $positive = false }}{{ end }}{{ end }}
{{- if not $positive }}emptyingTimeout and removalTimeout must be longer than 0s
{{- end }}
{{- end }}

{{- define "equipoise.rule.NodePrice" }}
{{- if not (or .instanceType .labels) }}a price needs an instanceType or labels (example: instanceType: m7i.large)
{{- end }}
{{- end }}

{{- define "equipoise.rule.PriceTable" }}
{{- $others := list }}{{ $currency := .currency }}
{{- range .nodes }}{{ if and .currency (ne .currency $currency) }}{{ $others = append $others .currency }}{{ end }}{{ end }}
{{- if and .nodes (not $currency) }}prices need a currency (example: currency: EUR)
{{- else if $others }}all prices must be in one currency: the table is in {{ $currency }}, and an entry in {{ sortAlpha $others | first }}
{{- end }}
{{- end }}

{{- /* The services check its PromQL, at their start: Helm cannot read it. */}}
{{- define "equipoise.rule.FurtherResource" }}
{{- if not (kindIs "string" .capacity) }}
{{- if or (le (float64 .capacity) 0.0) (gt (float64 .capacity) 9007199254740992.0) }}{{ printf "capacity must be above 0: %.6g" (float64 .capacity) }}{{ end }}
{{- end }}
{{- end }}

{{- define "equipoise.rule.FurtherThresholds" }}
{{- if not (kindIs "invalid" .low) }}
{{- if gt (addf .low .constants.minGap) (float64 .high) }}{{ printf "low (%.6g) must be at least %.6g points below high (%.6g)" .low .constants.minGap .high }}{{ end }}
{{- end }}
{{- end }}

{{- define "equipoise.rule.MetricRule" }}
{{- if not .metric }}metric must be {{ join ", " .constants.fixedMetrics }} or a name in load.resources{{ end }}
{{- end }}

{{- define "equipoise.rule.MetricRules" }}
{{- if not (or .avoid .prefer) }}rules needs avoid or prefer (example: avoid: [{metric: cpu, operator: GreaterThan, target: 80}]){{ end }}
{{- end }}

{{- define "equipoise.rule.Requirement" }}
{{- if and (has .operator (list "In" "NotIn")) (not .values) }}{{ .operator }} of {{ .key }} must name values
{{- else if and (not (has .operator (list "In" "NotIn"))) .values }}{{ .operator }} of {{ .key }} must not name values
{{- end }}
{{- end }}

{{- define "equipoise.rule.Deviation" }}
{{- $below := dict }}{{ $prodBelow := dict }}
{{- range $name, $value := .low }}{{ if not (kindIs "invalid" $value) }}{{ $_ := set $below $name (mulf -1 $value) }}{{ end }}{{ end }}
{{- range $name, $value := .prodLow }}{{ if not (kindIs "invalid" $value) }}{{ $_ := set $prodBelow $name (mulf -1 $value) }}{{ end }}{{ end }}
{{- with include "equipoise.tooClose" (dict "low" $below "high" .high "lowName" "−low" "highName" "high" "constants" .constants) }}{{ . }}
{{- else }}{{ include "equipoise.tooClose" (dict "low" $prodBelow "high" .prodHigh "lowName" "−prodLow" "highName" "prodHigh" "constants" .constants) }}
{{- end }}
{{- end }}

{{- define "equipoise.rule.LowNodeLoad" }}
{{- $names := list }}
{{- range .pools }}{{ $names = append $names .name }}{{ end }}
{{- if lt (uniq $names | len) (len $names) }}pools must not have a name twice
{{- end }}
{{- end }}

{{- define "equipoise.rule.BinPack" }}
{{- $some := false }}
{{- range .thresholds }}{{ if not (kindIs "invalid" .) }}{{ $some = true }}{{ end }}{{ end }}
{{- if not $some }}thresholds must have one resource at least (example: cpu: 20)
{{- end }}
{{- end }}

{{- define "equipoise.rule.DayWeights" }}
{{- if not (or .cpu .memory) }}weights needs at least one above 0
{{- end }}
{{- end }}

{{- define "equipoise.rule.PowerModel" }}
{{- if lt (mulf .k1 .k2) 0.0 }}k1 and k2 must have the same sign: power does not fall as load rises
{{- end }}
{{- end }}

{{- define "equipoise.rule.Peaks" }}
{{- if not (or .nodePowerModel .defaultPowerModel) }}peaks needs a nodePowerModel or a defaultPowerModel
{{- end }}
{{- end }}

{{- define "equipoise.rule.Dynamic" }}
{{- $weighted := false }}{{ $spans := true }}
{{- range .priorities }}{{ if .weight }}{{ $weighted = true }}{{ end }}{{ end }}
{{- range .hotValue }}{{ if le (include "equipoise.seconds" .span | float64) 0.0 }}{{ $spans = false }}{{ end }}{{ end }}
{{- if not $weighted }}priorities needs at least one entry with a weight above 0
{{- else if not $spans }}the span of a hotValue must be longer than 0s
{{- end }}
{{- end }}

{{- define "equipoise.rule.WaterLevel" }}
{{- $weighted := false }}
{{- range .windowWeights }}{{ if . }}{{ $weighted = true }}{{ end }}{{ end }}
{{- if not $weighted }}windowWeights needs at least one window with a weight above 0
{{- else }}{{ include "equipoise.resourceWeights" . }}
{{- end }}
{{- end }}

{{- define "equipoise.rule.ProfilePolicy" }}{{ include "equipoise.resourceWeights" . }}{{ end }}

{{- /* A weight that is not given is the default, which is above 0. */}}
{{- define "equipoise.resourceWeights" }}
{{- if and (hasKey .resourceWeights "cpu") (hasKey .resourceWeights "memory") (not .resourceWeights.cpu) (not .resourceWeights.memory) }}resourceWeights needs at least one weight above 0
{{- end }}
{{- end }}

{{- define "equipoise.rule.LoadAware" }}
{{- $weights := .resourceWeights }}
{{- $pods := false }}
{{- range list .usageThresholds .prodUsageThresholds (default dict .aggregated).usageThresholds }}{{ if . }}{{ if .pods }}{{ $pods = true }}{{ end }}{{ end }}{{ end }}
{{- if and (kindIs "map" $weights) (not (or (default dict $weights).cpu (default dict $weights).memory .dominantResourceWeight)) }}resourceWeights or dominantResourceWeight needs a weight above 0
{{- else if $pods }}thresholds of load_aware must not name pods: kube-scheduler itself counts them
{{- end }}
{{- end }}
