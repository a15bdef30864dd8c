import { type FieldDisplay, getDisplayValueAlignmentFactors, getFieldDisplayValues } from '@grafana/data';
import { BarGauge, BigValue, BigValueTextMode, VizRepeater } from '@grafana/ui';
import type { VizProps } from './props.ts';

function valuesOf({ panel, frames, fieldConfig, theme, replace }: VizProps): FieldDisplay[] {
  return getFieldDisplayValues({
    fieldConfig,
    reduceOptions: panel.options.reduceOptions,
    replaceVariables: replace as never,
    theme,
    data: frames,
    sparkline: panel.type === 'stat' && panel.options.graphMode !== 'none',
    timeZone: 'utc',
  });
}

/** Returns the text mode. In automatic mode, a configured name is shown even if there is only one value. */
const textModeOf = ({ panel, fieldConfig }: VizProps) =>
  panel.options.textMode === BigValueTextMode.Auto && (fieldConfig.defaults.displayName || !panel.title)
    ? BigValueTextMode.ValueAndName
    : panel.options.textMode;

/** Returns the properties of Grafana's `VizRepeater` that stat and bar gauge panels have in common. */
function repeated(props: VizProps) {
  const { panel, width, height } = props;
  const values = valuesOf(props);
  return {
    getValues: () => values,
    getAlignmentFactors: getDisplayValueAlignmentFactors,
    width,
    height,
    source: values,
    renderCounter: 0,
    orientation: panel.options.orientation,
  };
}

export function StatViz(props: VizProps) {
  const { panel, theme, timeRange } = props;
  const { options } = panel;
  return (
    <VizRepeater
      {...repeated(props)}
      itemSpacing={3}
      autoGrid
      renderValue={({ value, alignmentFactors, width, height, count }) => (
        <BigValue
          value={value.display}
          count={count}
          {...(value.sparkline ? { sparkline: { ...value.sparkline, timeRange } } : {})}
          colorMode={options.colorMode}
          graphMode={options.graphMode}
          justifyMode={options.justifyMode}
          textMode={textModeOf(props)}
          alignmentFactors={alignmentFactors}
          text={options.text}
          width={width}
          height={height}
          theme={theme}
          disableWideLayout={!options.wideLayout}
          percentChangeColorMode={options.percentChangeColorMode}
        />
      )}
    />
  );
}

export function BarGaugeViz(props: VizProps) {
  const { panel, theme } = props;
  const { options } = panel;
  return (
    <VizRepeater
      {...repeated(props)}
      minVizWidth={options.minVizWidth}
      minVizHeight={options.minVizHeight}
      renderValue={({ value, alignmentFactors, width, height, orientation }) => (
        <BarGauge
          value={value.display}
          field={value.field}
          {...(value.view?.getFieldDisplayProcessor(value.colIndex ?? 0)
            ? { display: value.view.getFieldDisplayProcessor(value.colIndex ?? 0) }
            : {})}
          alignmentFactors={alignmentFactors}
          width={width}
          height={height}
          orientation={orientation}
          text={options.text}
          displayMode={options.displayMode}
          showUnfilled={options.showUnfilled}
          valueDisplayMode={options.valueMode}
          namePlacement={options.namePlacement}
          theme={theme}
        />
      )}
    />
  );
}
