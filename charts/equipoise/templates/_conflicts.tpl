{{- /*
Settings of different services that conflict, as equipoise.contracts.configuration.conflicts finds them, with its words. A section that
is not valid is reported by _rules.tpl before. Lists and mappings pass between these definitions as JSON.
*/}}

{{- /* Of (dict "document" … "constants" … "thresholds" the-section-Thresholds-of-files/sections.json): a line for each conflict. */}}
{{- define "equipoise.conflicts" -}}
{{- $shared := include "equipoise.withDefaults" (list .document.thresholds .thresholds.defaults) | fromJson }}
{{- $scorer := .document.scorer | default dict }}
{{- $descheduler := .document.descheduler | default dict }}
{{- $given := dict "constants" .constants "shared" $shared "scorer" $scorer "policies" (include "equipoise.policies" $scorer | fromJsonArray) }}
{{- $strategies := list }}
{{- $listed := $descheduler.strategies }}
{{- if kindIs "invalid" $listed }}
{{- $listed = list (dict "name" "low_node_load") }}
{{- if eq (dig "moves" "level" "" .document) "levelDay" }}{{ $listed = append $listed (dict "name" "level_day") }}{{ end }}
{{- end }}
{{- range $place, $strategy := $listed }}
{{- $strategies = append $strategies (dict "path" (printf "config.descheduler.strategies[%d]" $place) "settings" $strategy) }}
{{- end }}
{{- $emptyings := list }}
{{- range $strategy := $strategies }}
{{- if eq .settings.name "low_node_load" }}
{{- $whole := .settings.deviation }}
{{- $emptyings = append $emptyings (dict "path" .path "thresholds" $shared "relative" (include "equipoise.isRelative" $whole)) }}
{{- range $place, $pool := .settings.pools }}
{{- $path := printf "%s.pools[%d]" $strategy.path $place }}
{{- $thresholds := deepCopy $shared }}
{{- range list "high" "low" "prodHigh" "prodLow" }}{{ if kindIs "map" (index $pool .) }}{{ $_ := set $thresholds . (index $pool .) }}{{ end }}{{ end }}
{{- with include "equipoise.rule.Thresholds" (merge (dict "constants" $given.constants) $thresholds) | trim }}{{ $path }}: {{ . }}; the pool inherits from thresholds what it does not set
{{ else }}
{{- $own := kindIs "invalid" $pool.deviation | ternary $whole $pool.deviation }}
{{- $emptyings = append $emptyings (dict "path" $path "thresholds" $thresholds "relative" (include "equipoise.isRelative" $own)) }}
{{- end }}
{{- end }}
{{- else if eq .settings.name "level_day" }}
{{- $emptyings = append $emptyings (dict "path" .path "thresholds" $shared "relative" "true") }}
{{- end }}
{{- end }}
{{- $_ := set $given "emptyings" $emptyings }}
{{- $_ := set $given "strategies" $strategies }}
{{- $emptied := list }}
{{- range $emptying := $emptyings }}
{{- range $kind := list "high" "prodHigh" }}
{{- range $metric := $given.constants.filtered }}
{{- $threshold := index (index $emptying.thresholds $kind) $metric }}
{{- if not (kindIs "invalid" $threshold) }}{{ $emptied = append $emptied (dict "path" $emptying.path "setting" (print $kind "." $metric) "kind" $kind "metric" $metric "threshold" $threshold) }}{{ end }}
{{- end }}
{{- end }}
{{- end }}
{{- range $strategies }}
{{- $path := print .path ".rules" }}
{{- if eq .settings.name "rules" }}
{{- range include "equipoise.upperTargets" (list .settings.rules .settings.match) | fromJsonArray }}{{ $emptied = append $emptied (dict "path" $path "setting" .metric "kind" "high" "metric" .metric "threshold" .target) }}{{ end }}
{{- end }}
{{- end }}
{{- $_ := set $given "emptied" $emptied }}
{{- include "equipoise.filterConflicts" $given }}
{{- include "equipoise.packingConflicts" $given }}
{{- $lifetime := $descheduler.intentLifetime | default .constants.intentLifetime }}
{{- $longest := dig "binder" "maxIntentLifetime" .constants.maxIntentLifetime .document }}
{{- if gt (include "equipoise.seconds" $lifetime | float64) (include "equipoise.seconds" $longest | float64) -}}
config.descheduler.intentLifetime: {{ include "equipoise.duration" $lifetime }} is longer than binder.maxIntentLifetime ({{ include "equipoise.duration" $longest }}), so every intent would be rejected: raise binder.maxIntentLifetime
{{ end }}
{{- $pressure := $shared.pressure | default dict }}
{{- if and (dig "descheduler" "requirePressure" false .document) (kindIs "invalid" (index $pressure "cpu")) (kindIs "invalid" (index $pressure "memory")) -}}
config.descheduler.requirePressure: thresholds.pressure has no threshold for cpu, so it has no effect: set thresholds.pressure.cpu, the percentage of time above which waiting for CPU is too much
{{ end }}
{{- include "equipoise.unmeasured" (merge (dict "measured" (.document.load | default dict).resources) $given) }}
{{- $windows := .constants.windows }}
{{- with (.document.load | default dict).windows }}{{ $windows = list }}{{ range . }}{{ $windows = append $windows .name }}{{ end }}{{ end }}
{{- range $strategy := $strategies }}
{{- range .settings.windows }}{{ if not (has . $windows) }}{{ printf "%s.windows: %s is not measured: load.windows has %s\n" $strategy.path . (join ", " $windows) }}{{ end }}{{ end }}
{{- end }}
{{- range $strategies }}
{{- $of := merge (dict "path" .path "strategy" .settings) $given }}
{{- if eq .settings.name "bin_pack" }}{{ include "equipoise.binPackConflicts" $of }}{{ end }}
{{- include "equipoise.idleRuleConflicts" $of }}
{{- include "equipoise.opposedStrategies" $of }}
{{- include "equipoise.rulesBelowThresholds" $of }}
{{- end }}
{{- end }}

{{- /* Thresholds, rules and weights of resources that nothing measures. */}}
{{- define "equipoise.unmeasured" -}}
{{- $measured := .measured | default dict }}
{{- $known := keys $measured | sortAlpha | join ", " | default "none" }}
{{- range $name, $_ := .shared.resources }}
{{- if not (hasKey $measured $name) }}{{ printf "config.thresholds.resources.%s: load.resources measures no %s (but %s): add it there, or remove the threshold\n" $name $name $known }}{{ end }}
{{- end }}
{{- $fixed := .constants.fixedMetrics }}
{{- range concat .policies .strategies }}
{{- $path := .path }}
{{- $metrics := keys (.settings.furtherWeights | default dict) }}
{{- if eq .settings.name "rules" }}
{{- range concat (.settings.avoid | default list) (.settings.rules | default list) }}{{ $metrics = append $metrics .metric }}{{ end }}
{{- with .settings.prefer }}{{ $metrics = append $metrics .metric }}{{ end }}
{{- end }}
{{- range $metrics }}
{{- if not (or (has . $fixed) (hasKey $measured .)) }}{{ printf "%s: load.resources measures no %s (but %s): add it there, or correct the name\n" $path . $known }}{{ end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Of (list settings defaults). */}}
{{- define "equipoise.withDefaults" -}}
{{- $settings := deepCopy (index . 1) }}
{{- range $name, $value := index . 0 }}{{ $_ := set $settings $name $value }}{{ end }}
{{- $settings | toJson }}
{{- end }}

{{- /* Whether the CPU threshold is relative to the mean: by default it is with a deviation. */}}
{{- define "equipoise.isRelative" -}}
{{- if kindIs "map" . }}{{ if not (hasKey . "high") }}true{{ else if not (kindIs "invalid" .high.cpu) }}true{{ end }}{{ end }}
{{- end }}

{{- /* Normalized: 90m is 1h30m. */}}
{{- define "equipoise.duration" -}}
{{- $rest := round (mulf (include "equipoise.seconds" . | float64) 1000) 0 | int64 }}
{{- $text := "" }}
{{- range list (list "d" 86400000) (list "h" 3600000) (list "m" 60000) (list "s" 1000) (list "ms" 1) }}
{{- $count := div $rest (index . 1) }}
{{- $rest = mod $rest (index . 1) }}
{{- if $count }}{{ $text = printf "%s%d%s" $text $count (index . 0) }}{{ end }}
{{- end }}
{{- $text | default "0s" }}
{{- end }}

{{- /* The policy, or the parts of a mix; none if scores are neutral. */}}
{{- define "equipoise.policies" -}}
{{- $policy := .policy | default (dict "name" "profile") }}
{{- $found := list }}
{{- if .neutral }}
{{- else if ne $policy.name "mix" }}{{ $found = list (dict "path" "config.scorer.policy" "settings" $policy) }}
{{- else }}
{{- range $place, $part := $policy.parts }}{{ $found = append $found (dict "path" (printf "config.scorer.policy.parts[%d].policy" $place) "settings" $part.policy) }}{{ end }}
{{- end }}
{{- $found | toJson }}
{{- end }}

{{- /* The filter must refuse the nodes that are emptied, or evicted pods return to them at once. */}}
{{- define "equipoise.filterConflicts" -}}
{{- $given := . }}
{{- if dig "extender" "filter" false .scorer }}
{{- $limits := list }}
{{- range .policies }}{{ $limits = concat $limits (include "equipoise.ownLimits" (list . $given.constants) | fromJsonArray) }}{{ end }}
{{- if not (or $limits .scorer.neutral) }}
{{- $limits = include "equipoise.limitsOf" (list "config.thresholds.high" "high" .shared.high .constants) | fromJsonArray }}
{{- end }}
{{- $strictest := dict }}{{ $order := list }}
{{- range $limits }}
{{- $key := print .kind "." .metric }}
{{- $known := get $strictest $key }}
{{- if not $known }}{{ $order = append $order $key }}{{ $_ := set $strictest $key . }}{{ else if lt (float64 .load) (float64 $known.load) }}{{ $_ := set $strictest $key . }}{{ end }}
{{- end }}
{{- range $key := $order }}
{{- $limit := get $strictest $key }}
{{- range $given.emptied }}
{{- if and (eq .kind $limit.kind) (eq .metric $limit.metric) (gt (float64 $limit.load) (float64 .threshold)) }}
{{- printf "%s: the filter accepts nodes up to %.6g%%, and %s evicts pods above %s %.6g%%: lower the first to %.6g, raise the second to %.6g, or set scorer.extender.filter: false\n" $limit.path (float64 $limit.load) (trimPrefix "config." .path) .setting (float64 .threshold) (float64 .threshold) (float64 $limit.load) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Of (list rules match): metric and target of each rule that matches all nodes above its target, whatever other rules say. */}}
{{- define "equipoise.upperTargets" -}}
{{- $targets := list }}
{{- if or (ne (index . 1 | default "any") "all") (eq (len (index . 0)) 1) }}
{{- range index . 0 }}{{ if eq .operator "GreaterThan" }}{{ $targets = append $targets (dict "metric" .metric "target" .target) }}{{ end }}{{ end }}
{{- end }}
{{- $targets | toJson }}
{{- end }}

{{- /* Of (list path kind thresholds constants): loads up to which the filter accepts a node; 0 and null are no limit. */}}
{{- define "equipoise.limitsOf" -}}
{{- $given := . }}
{{- $limits := list }}
{{- range (index . 3).filtered }}
{{- $load := index (index $given 2 | default dict) . }}
{{- if $load }}{{ $limits = append $limits (dict "path" (printf "%s.%s" (index $given 0) .) "kind" (index $given 1) "metric" . "load" $load) }}{{ end }}
{{- end }}
{{- $limits | toJson }}
{{- end }}

{{- /* Of (list policy constants): its own limits. */}}
{{- define "equipoise.ownLimits" -}}
{{- $policy := index . 0 }}{{ $constants := index . 1 }}
{{- $settings := $policy.settings }}
{{- $limits := list }}
{{- if eq $settings.name "dynamic" }}
{{- $strictest := $constants.dynamic }}
{{- if not (kindIs "invalid" $settings.predicates) }}
{{- $strictest = dict }}
{{- range $settings.predicates }}
{{- if and .limit (or (not (hasKey $strictest .resource)) (lt .limit (get $strictest .resource | default 101.0))) }}{{ $_ := set $strictest .resource .limit }}{{ end }}
{{- end }}
{{- end }}
{{- $limits = include "equipoise.limitsOf" (list (print $policy.path ".predicates") "high" $strictest $constants) | fromJsonArray }}
{{- else if eq $settings.name "rules" }}
{{- range include "equipoise.upperTargets" (list ($settings.avoid | default list) $settings.match) | fromJsonArray }}{{ $limits = append $limits (dict "path" (printf "%s.avoid: %s" $policy.path .metric) "kind" "high" "metric" .metric "load" .target) }}{{ end }}
{{- else if eq $settings.name "load_aware" }}
{{- $limits = include "equipoise.limitsOf" (list (print $policy.path ".prodUsageThresholds") "prodHigh" $settings.prodUsageThresholds $constants) | fromJsonArray }}
{{- $aggregated := (default dict $settings.aggregated).usageThresholds | default dict }}
{{- $used := false }}
{{- range $aggregated }}{{ if not (kindIs "invalid" .) }}{{ $used = true }}{{ end }}{{ end }}
{{- if $used }}
{{- $limits = concat $limits (include "equipoise.limitsOf" (list (print $policy.path ".aggregated.usageThresholds") "high" $aggregated $constants) | fromJsonArray) }}
{{- else }}
{{- $limits = concat $limits (include "equipoise.limitsOf" (list (print $policy.path ".usageThresholds") "high" $settings.usageThresholds $constants) | fromJsonArray) }}
{{- end }}
{{- end }}
{{- $limits | toJson }}
{{- end }}

{{- /* target_load_packing fills a node up to its target, whatever the load of the others is. */}}
{{- define "equipoise.packingConflicts" -}}
{{- $given := . }}
{{- range $policy := .policies }}
{{- if eq .settings.name "target_load_packing" }}
{{- $target := hasKey .settings "targetUtilization" | ternary .settings.targetUtilization $given.constants.packingTarget }}
{{- $needed := addf $target $given.constants.minGap }}
{{- $levelled := list }}
{{- range $given.emptyings }}
{{- if .relative }}
{{- $levelled = append $levelled .path }}
{{- printf "%s: target_load_packing fills some nodes to %.6g%% and leaves others empty, and %s levels them: remove its deviation (or the strategy), or use another policy\n" $policy.path $target (trimPrefix "config." .path) }}
{{- end }}
{{- end }}
{{- range $given.emptied }}
{{- if and (eq .kind "high") (eq .metric "cpu") (not (has .path $levelled)) (gt $needed (float64 .threshold)) }}
{{- printf "%s.targetUtilization: nodes are filled to %.6g%%, and %s empties them above %s %.6g%%: at least %.6g points are needed between: lower the first to %.6g or raise the second to %.6g\n" $policy.path $target (trimPrefix "config." .path) .setting (float64 .threshold) $given.constants.minGap (subf .threshold $given.constants.minGap) $needed }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* bin_pack fills and empties nodes. */}}
{{- define "equipoise.binPackConflicts" -}}
{{- $given := . }}
{{- $gap := .constants.minGap }}
{{- $sparse := .strategy.thresholds | default .constants.sparse }}
{{- $headroom := hasKey .strategy "headroom" | ternary .strategy.headroom .constants.headroom }}
{{- $filled := dict }}
{{- range .constants.resources }}{{ $high := index $given.shared.high . }}{{ if not (kindIs "invalid" $high) }}{{ $_ := set $filled . (subf $high $headroom) }}{{ end }}{{ end }}
{{- with include "equipoise.tooClose" (dict "low" $sparse "high" $filled "lowName" "thresholds" "highName" (printf "thresholds.high − headroom %.6g:" $headroom) "constants" .constants) }}{{ $given.path }}: {{ . }}
{{ end }}
{{- range .policies }}
{{- $place := trimPrefix "config." .path }}
{{- $target := hasKey .settings "targetUtilization" | ternary .settings.targetUtilization $given.constants.packingTarget }}
{{- if ne .settings.name "target_load_packing" -}}
{{ $given.path }}: bin_pack empties nodes that {{ $place }} ({{ .settings.name }}) fills first: set scorer.policy to target_load_packing, or scorer.neutral: true beside kube-scheduler's MostAllocated
{{ else if not (kindIs "invalid" $sparse.cpu) }}
{{- if gt (addf $sparse.cpu $gap) (float64 $target) }}
{{- printf "%s.thresholds.cpu: nodes are sparse up to %.6g%%, %s fills to %.6g%% only: lower the first to %.6g or raise targetUtilization to %.6g\n" $given.path $sparse.cpu $place $target (subf $target $gap) (addf $sparse.cpu $gap) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* What empties the nodes that are used little; nothing if no part of the strategy does. */}}
{{- define "equipoise.emptiesIdle" -}}
{{- if eq .name "bin_pack" }}bin_pack{{ end }}
{{- if eq .name "rules" }}
{{- $below := 0 }}{{ range .rules }}{{ if eq .operator "LessThan" }}{{ $below = add1 $below }}{{ end }}{{ end }}
{{- if and $below (or (eq (int $below) (len .rules)) (ne (.match | default "any") "all")) }}a rule with LessThan{{ end }}
{{- end }}
{{- end }}

{{- /* Rules with LessThan empty nodes that the scorer fills only up to its target. */}}
{{- define "equipoise.idleRuleConflicts" -}}
{{- $given := . }}
{{- $gap := .constants.minGap }}
{{- range eq (include "equipoise.emptiesIdle" .strategy) "a rule with LessThan" | ternary .strategy.rules list }}
{{- $rule := . }}
{{- if and (eq .metric "cpu") (eq .operator "LessThan") }}
{{- range $given.policies }}
{{- $target := hasKey .settings "targetUtilization" | ternary .settings.targetUtilization $given.constants.packingTarget }}
{{- if and (eq .settings.name "target_load_packing") (gt (addf $rule.target $gap) (float64 $target)) }}
{{- printf "%s.rules: nodes below cpu %.6g%% are emptied, and %s fills them to %.6g%% only: lower the first to %.6g or raise targetUtilization to %.6g\n" $given.path (float64 $rule.target) (trimPrefix "config." .path) (float64 $target) (subf $target $gap) (addf $rule.target $gap) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Nodes that are used little are emptied by one strategy, and are the first targets of the others. */}}
{{- define "equipoise.opposedStrategies" -}}
{{- $given := . }}
{{- $what := include "equipoise.emptiesIdle" .strategy }}
{{- if $what }}
{{- range .strategies }}
{{- if not (or (eq .path $given.path) (eq .settings.name "bin_pack") (include "equipoise.areApart" (list $given.strategy .settings))) -}}
{{ $given.path }}: {{ $what }} empties the nodes that {{ trimPrefix "config." .path }} ({{ .settings.name }}) fills: keep one of them, or give each a nodeSelector with matchLabels that name another value of one label
{{ end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Whether no node can match the selectors of both strategies. */}}
{{- define "equipoise.areApart" -}}
{{- $one := (default dict (index . 0).nodeSelector).matchLabels | default dict }}
{{- $other := (default dict (index . 1).nodeSelector).matchLabels | default dict }}
{{- $apart := "" }}
{{- range $name, $value := $one }}{{ if and (hasKey $other $name) (ne $value (get $other $name)) }}{{ $apart = "true" }}{{ end }}{{ end }}
{{- $apart }}
{{- end }}

{{- /* Rules with GreaterThan empty nodes that the other strategies fill up to a higher threshold. */}}
{{- define "equipoise.rulesBelowThresholds" -}}
{{- $given := . }}
{{- if eq .strategy.name "rules" }}
{{- range $rule := include "equipoise.upperTargets" (list .strategy.rules .strategy.match) | fromJsonArray }}
{{- range $given.strategies }}
{{- if not (or (has .settings.name (list "rules" "bin_pack")) (include "equipoise.areApart" (list $given.strategy .settings))) }}
{{- $filled := include "equipoise.filledTo" (list . $rule.metric $given) | fromJson }}
{{- if $filled.path }}
{{- if lt (float64 $rule.target) (float64 $filled.load) }}
{{- printf "%s.rules: nodes above %s %.6g%% are emptied, and %s (%s) fills them up to %s %.6g%%: raise the first to %.6g, or lower the second\n" $given.path $rule.metric (float64 $rule.target) (trimPrefix "config." .path) .settings.name (trimPrefix "config." $filled.path) (float64 $filled.load) (float64 $filled.load) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Of (list strategy metric given): the threshold up to which a strategy fills nodes with a metric, and its path; of pools, the highest. */}}
{{- define "equipoise.filledTo" -}}
{{- $strategy := index . 0 }}{{ $metric := index . 1 }}{{ $given := index . 2 }}
{{- $filled := dict "path" "" "load" 0 }}
{{- $further := $given.shared.resources | default dict }}
{{- if hasKey $further $metric }}
{{- $filled = dict "path" (printf "thresholds.resources.%s.high" $metric) "load" (get $further $metric).high }}
{{- else if has $metric $given.constants.filtered }}
{{- $load := index $given.shared.high $metric }}
{{- if not (kindIs "invalid" $load) }}{{ $filled = dict "path" (printf "thresholds.high.%s" $metric) "load" $load }}{{ end }}
{{- range $given.emptyings }}
{{- $own := index .thresholds.high $metric }}
{{- if and (hasPrefix (print $strategy.path ".pools") .path) (not (kindIs "invalid" $own)) }}
{{- if gt (float64 $own) (float64 $filled.load) }}{{ $filled = dict "path" (printf "%s.high.%s" .path $metric) "load" $own }}{{ end }}
{{- end }}
{{- end }}
{{- end }}
{{- $filled | toJson }}
{{- end }}
