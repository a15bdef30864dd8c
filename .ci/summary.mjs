import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { relative } from 'node:path';

/**
 * Summarizes the JSON reports of the suites that are given as arguments, `FOLDER/SCRIPT.json`. Failed test files run once more,
 * alone: a busy machine can exceed a time limit. Always prints the first failure; a file that fails twice fails the run. If
 * more than five files failed, none is repeated. The last line is `N passed, N failed`.
 */
const MOST_TRIED_AGAIN = 5;

const print = text => process.stdout.write(`${text}\n`);

/** Returns the failures in a report, by test file. */
function read(file) {
  try {
    const { numPassedTests: passed, success, testResults } = JSON.parse(readFileSync(file, 'utf8'));
    const failed = testResults.flatMap(({ name, status, message, assertionResults }) => {
      const tests = assertionResults.filter(({ status }) => status === 'failed');
      const texts = tests.map(({ fullName, failureMessages }) => `${fullName}\n${failureMessages.join('\n')}`);
      if (status === 'failed' && tests.length === 0) texts.push(message);
      return texts.length > 0 ? [{ name: relative('.', name), count: texts.length, texts }] : [];
    });
    // An error outside of all tests also fails the run.
    if (!success && failed.length === 0)
      failed.push({ name: file, count: 1, texts: ['the run failed outside of its tests'] });
    return { passed, failed };
  } catch (error) {
    return { passed: 0, failed: [{ name: file, count: 1, texts: [`no report: ${error}`] }] };
  }
}

const suites = process.argv.slice(2).map(file => ({ file, script: /([^/]+)\.json$/.exec(file)[1], ...read(file) }));
let passed = suites.reduce((sum, suite) => sum + suite.passed, 0);
let failed = 0;
const files = suites.flatMap(({ script, file, failed }) => failed.map(each => ({ script, file, ...each })));
for (const { script, file, name, count, texts } of files) {
  print(`\nFAILED ${name}\n${texts.map(text => text.slice(0, 4000)).join('\n')}`);
  const report = `${file}.again`;
  const isTried = files.length <= MOST_TRIED_AGAIN && name !== file;
  const again = isTried
    ? spawnSync('npm', ['run', script, '--', name, '--reporter=json', `--outputFile=${report}`])
    : undefined;
  if (again?.status !== 0) failed += count;
  else {
    passed += count;
    print(`UNSTABLE ${name}: it passed when it ran again, alone`);
  }
}
print(`${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 && suites.every(suite => suite.passed > 0) ? 0 : 1;
