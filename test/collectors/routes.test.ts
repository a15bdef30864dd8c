import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createRoutes, routesOption, UNMATCHED } from '../../src/collectors/routes.ts';
import { runs } from '../support/runs.ts';

const PATTERNS = ['/users/me', '/users/:id', '/jobs/:name/*path', '/v{:major}/x', '/café/:cup', '/files{/*rest}'];

describe('routes', () => {
  it.each([
    ['https://a.example/users/7', '/users/:id'],
    ['https://user:secret@b.example:8443/users/7/?token=x#y', '/users/:id'],
    ['http://a.example/Users/ME', '/users/me'],
    ['https://a.example/users/a%2Fb', '/users/:id'],
    ['https://a.example/users/7/orders', UNMATCHED],
    ['https://a.example/users/x/../7', '/users/:id'],
    ['https://a.example/jobs/nightly/a/b/c', '/jobs/:name/*path'],
    ['https://a.example/jobs/nightly', UNMATCHED],
    ['https://a.example/v2/x', '/v{:major}/x'],
    ['https://a.example/café/7', '/café/:cup'],
    ['https://a.example/caf%c3%a9/7', '/café/:cup'],
    ['https://a.example/files', '/files{/*rest}'],
    ['https://a.example/', UNMATCHED],
    ['/users/7', UNMATCHED],
    ['no address', UNMATCHED],
    ['', UNMATCHED],
  ])('the route of %s is the first matching pattern: %s', (url, route) => {
    const routes = createRoutes(PATTERNS);
    // The second result comes from the cache.
    expect([routes.of(url), routes.of(url), routes.ofPath(URL.parse(url)?.pathname ?? '')]).toEqual(
      Array(3).fill(route),
    );
  });

  it('paths that are too long are UNMATCHED, and so are all paths if there are no patterns', () => {
    expect(createRoutes([]).of('https://a.example/users/7')).toBe(UNMATCHED);
    const of = (length: number) => createRoutes(['/*all']).ofPath(`/${'x'.repeat(length)}`);
    expect([of(2047), of(2048)]).toEqual(['/*all', UNMATCHED]);
  });

  it('routes are correct after the cache has been emptied', () => {
    const routes = createRoutes(['/users/:id']);
    for (let number = 0; number < 12_000; number += 1) {
      expect(routes.ofPath(`/users/${number}`)).toBe('/users/:id');
      expect(routes.ofPath(`/${number}`)).toBe(UNMATCHED);
    }
  });
});

describe('option routes', () => {
  const faultOf = (value: unknown) =>
    routesOption.safeParse(value).error?.issues.map(({ path, message }) => [path, message]);

  it.each([
    ['users/:id', 'does not begin with /'],
    ['', 'does not begin with /'],
    ['/x(\\d+)', 'Unexpected ( at index 2'],
    ['/:', 'Missing parameter name at index 2'],
    ['/a?', 'Unexpected ? at index 2'],
    ['/{a', 'Unexpected end at index 3, expected }'],
    ['/:a:b', 'Missing text before "b" param'],
    ['/a\\', 'Unexpected end after \\ at index 3'],
    [`/${'{a}'.repeat(9)}`, 'Too many path combinations'],
  ])('the option rejects %j as a pattern and reports the reason and the position', (pattern, why) => {
    const message = `must be a path pattern such as /users/:id or /files/*path: ${why}`;
    expect(faultOf(['/fine', pattern])).toEqual([[[1], message]]);
  });

  it('the option rejects duplicate patterns', () => {
    expect(faultOf(['/a', '/b', '/a'])).toEqual([[[], 'must not name a pattern twice']]);
    expect(routesOption.parse(PATTERNS)).toEqual(PATTERNS);
  });
});

it('matching a path against any valid pattern never backtracks exponentially', {
  timeout: 60_000,
}, () => {
  const piece = fc.constantFrom('/', 'a', '-', '.', ':x', '*y', '{:z-}', '{a}', 'aa', '/:w', '/*v');
  const pattern = fc
    .array(piece, { minLength: 1, maxLength: 12 })
    .map(pieces => `/${pieces.join('')}`)
    .filter(text => routesOption.safeParse([text]).success);
  const unit = fc.array(fc.constantFrom('a', '-', '.', '/', 'aa', 'x'), { minLength: 1, maxLength: 4 });
  fc.assert(
    fc.property(pattern, unit, fc.constantFrom('', '/', '!', 'a'), (pattern, unit, end) => {
      const text = unit.join('');
      const path = text.repeat(2000 / text.length) + end;
      const { ofPath } = createRoutes([pattern]);
      // An exponential match would never end.
      expect([pattern, UNMATCHED]).toContain(ofPath(`/${path}`));
    }),
    { numRuns: runs(400) },
  );
});
