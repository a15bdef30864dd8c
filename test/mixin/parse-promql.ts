import type { SyntaxNode } from '@lezer/common';
import { parser } from '@prometheus-io/lezer-promql';

export interface Selector {
  readonly name: string;
  /** Matchers by label: operator and value as written. */
  readonly matchers: Readonly<Record<string, string>>;
  /** The directly enclosing function, if any. */
  readonly inside: string | undefined;
  /** The range as written. */
  readonly range: string | undefined;
  /** Whether an enclosing aggregation sums over the label `filter`. */
  readonly isSummedOverFilter: boolean;
}

export interface Parsed {
  /** Syntax errors, each with its position. */
  readonly faults: readonly string[];
  readonly selectors: readonly Selector[];
  /** Labels used for grouping or matching. */
  readonly groupedBy: readonly string[];
}

/** Replaces Grafana's variables. */
export const interpolate = (expr: string) =>
  expr
    .replaceAll('$__rate_interval', '1m')
    .replaceAll('$__interval', '1m')
    .replaceAll('$__range', '6h')
    .replaceAll(/\$(job|instance|account)\b/g, '.+');

const ancestors = (node: SyntaxNode): SyntaxNode[] => (node.parent ? [node.parent, ...ancestors(node.parent)] : []);

/** Parses PromQL with Grafana's variables. */
export function parsePromql(written: string): Parsed {
  const expr = interpolate(written);
  const text = ({ from, to }: { from: number; to: number }) => expr.slice(from, to);
  const faults: string[] = [];
  const selectors: Selector[] = [];
  const groupedBy: string[] = [];
  const labelsIn = (node: SyntaxNode | null) => (node?.getChildren('LabelName') ?? []).map(text);
  const dropsFilter = (aggregate: SyntaxNode) => {
    if (aggregate.getChild('AggregateOp')?.getChild('Sum') === null) return false;
    const modifier = aggregate.getChild('AggregateModifier');
    const labels = labelsIn(modifier?.getChild('GroupingLabels') ?? null);
    return modifier?.getChild('Without') ? labels.includes('filter') : !labels.includes('filter');
  };
  parser.parse(expr).iterate({
    enter({ node, type }) {
      if (type.isError) faults.push(`${written}: at ${node.from}`);
      if (type.name === 'GroupingLabels') groupedBy.push(...labelsIn(node));
      if (type.name !== 'VectorSelector') return;
      const around = ancestors(node);
      const matrix = node.parent?.name === 'MatrixSelector' ? node.parent : undefined;
      const matchers = Object.fromEntries(
        (node.getChild('LabelMatchers')?.getChildren('UnquotedLabelMatcher') ?? []).map(matcher => {
          const label = matcher.getChild('LabelName');
          return label ? [text(label), expr.slice(label.to, matcher.to)] : ['', ''];
        }),
      );
      const call = (matrix ?? node).parent?.parent;
      selectors.push({
        name: text(node.getChild('Identifier') ?? node),
        matchers,
        inside: call?.name === 'FunctionCall' ? text(call.getChild('FunctionIdentifier') ?? call) : undefined,
        range: matrix && /\[(.*)\]$/.exec(text(matrix))?.[1],
        isSummedOverFilter:
          !matchers.filter?.startsWith('="') && around.some(node => node.name === 'AggregateExpr' && dropsFilter(node)),
      });
    },
  });
  return { faults, selectors, groupedBy };
}
