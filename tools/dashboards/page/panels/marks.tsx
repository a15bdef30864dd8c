import type { UPlotConfigBuilder } from '@grafana/ui';
import { useLayoutEffect } from 'react';
import type { Mark } from './props.ts';

const LINE = 2;
const FOOT = 5;

/** Draws annotations like Grafana: a point in time as a dashed line with a marker below it, a period as an area between two lines. */
export function Marks({ config, marks }: { readonly config: UPlotConfigBuilder; readonly marks: readonly Mark[] }) {
  useLayoutEffect(() => {
    config.addHook('draw', ({ ctx, bbox, valToPos, scales }) => {
      const { min = 0, max = 0 } = scales.x ?? {};
      const bottom = bbox.top + bbox.height;
      ctx.save();
      ctx.lineWidth = LINE;
      ctx.setLineDash([5, 5]);
      for (const { at, until = at, color } of marks) {
        if (until < (min ?? 0) || at > (max ?? 0)) continue;
        const [left, right] = [at, until].map(time =>
          valToPos(Math.max(min ?? 0, Math.min(max ?? 0, time)), 'x', true),
        );
        ctx.strokeStyle = color;
        ctx.fillStyle = color;
        for (const x of new Set([left ?? 0, right ?? 0])) {
          ctx.beginPath();
          ctx.moveTo(x, bbox.top);
          ctx.lineTo(x, bottom);
          ctx.stroke();
        }
        const [from, to] = left === right ? [(left ?? 0) - FOOT / 2, (left ?? 0) + FOOT / 2] : [left ?? 0, right ?? 0];
        ctx.fillRect(from, bottom, to - from, FOOT);
        ctx.globalAlpha = 0.1;
        ctx.fillRect(left ?? 0, bbox.top, (right ?? 0) - (left ?? 0), bbox.height);
        ctx.globalAlpha = 1;
      }
      ctx.restore();
    });
  }, [config, marks]);
  return null;
}
