import { formattedValueToString, getFieldDisplayName, getValueFormat } from '@grafana/data';
import * as chromatic from 'd3-scale-chromatic';
import { useCallback, useMemo } from 'react';
import type uPlot from 'uplot';
import { warn } from '../model.ts';
import { RowsPlot } from './plot.tsx';
import type { VizProps } from './props.ts';

/** Returns Grafana's colour scale from low to high counts. In the dark theme, low counts are dark. */
function paletteOf({ panel, theme }: VizProps): (share: number) => string {
  const { scheme = 'Oranges', reverse = false, mode } = panel.options.color ?? {};
  if (mode === 'opacity') warn(`${panel.title}: options.color.mode opacity`);
  const interpolate = (chromatic as unknown as Record<string, (share: number) => string>)[`interpolate${scheme}`];
  if (!interpolate) {
    warn(`${panel.title}: color scheme ${scheme}`);
    return () => theme.colors.warning.main;
  }
  const flips = theme.isDark !== reverse;
  return share => interpolate(flips ? 1 - share : share);
}

const LEGEND = 34;

export function HeatmapViz(props: VizProps) {
  const { panel, frames, width, height, theme } = props;
  const { options } = panel;
  const unit = getValueFormat(options.yAxis?.unit ?? panel.fieldConfig?.defaults.unit ?? 'short');
  const labels = useMemo(
    () =>
      frames.map(frame => {
        const field = frame.fields[1];
        const le = Number(field?.labels?.le?.replace('Inf', 'Infinity'));
        if (!field || Number.isNaN(le)) return field ? getFieldDisplayName(field, frame, frames) : '';
        return Number.isFinite(le) ? formattedValueToString(unit(le, options.yAxis?.decimals)) : '+Inf';
      }),
    [frames, unit, options],
  );
  const palette = useMemo(() => paletteOf(props), [props]);
  const shown = useMemo(
    () =>
      frames.flatMap(({ fields }) => fields[1]?.values ?? []).filter(value => value > (options.filterValues?.le ?? 0)),
    [frames, options],
  );
  const [least, most] = [Math.min(...shown), Math.max(...shown)];
  const draw = useCallback(
    ({ ctx, valToPos }: uPlot) => {
      const steps = options.color?.steps ?? 64;
      const gap = (options.cellGap ?? 1) * devicePixelRatio;
      for (const [row, { fields }] of frames.entries()) {
        const [time, value] = fields;
        const [top, bottom] = [valToPos(row + 0.5, 'y', true), valToPos(row - 0.5, 'y', true)];
        const step = time?.config.interval ?? 0;
        for (const [index, at] of (time?.values ?? []).entries()) {
          const count = value?.values[index];
          if (!(count > (options.filterValues?.le ?? 0))) continue;
          const share = most > least ? (count - least) / (most - least) : 1;
          const [left, right] = [valToPos(at - step, 'x', true), valToPos(at, 'x', true)];
          ctx.fillStyle = palette(Math.round(share * (steps - 1)) / (steps - 1));
          ctx.fillRect(left, top, Math.max(1, right - left - gap), Math.max(1, bottom - top - gap));
        }
      }
    },
    [frames, options, palette, least, most],
  );
  const hasLegend = options.legend?.show !== false && shown.length > 0;
  const format = (value: number) => formattedValueToString(getValueFormat('short')(value, value < 10 ? 2 : 0));
  return (
    <div>
      <RowsPlot {...props} labels={labels} draw={draw} height={height - (hasLegend ? LEGEND : 0)} />
      {hasLegend && (
        <div style={{ width: width / 2, maxWidth: 300, fontSize: 12, paddingLeft: 8 }}>
          <div
            style={{
              height: 10,
              background: `linear-gradient(to right, ${[0, 0.25, 0.5, 0.75, 1].map(palette).join()})`,
            }}
          />
          <div style={{ display: 'flex', justifyContent: 'space-between', color: theme.colors.text.secondary }}>
            <span>{format(least)}</span>
            <span>{format(most)}</span>
          </div>
        </div>
      )}
    </div>
  );
}
