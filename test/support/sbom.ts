import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv } from 'ajv';

const schema = (name: string) =>
  JSON.parse(readFileSync(join('node_modules/@cyclonedx/cyclonedx-library/res/schema', name), 'utf8'));

/** Returns the violations of CycloneDX's JSON schema, as JSON; an empty list if the bill of materials is valid. */
export function sbomErrors(sbom: object): string {
  const ajv = new Ajv({ strict: false, validateFormats: false, allErrors: true });
  for (const name of ['spdx.SNAPSHOT.schema.json', 'jsf-0.82.SNAPSHOT.schema.json']) {
    ajv.addSchema(schema(name), `http://cyclonedx.org/schema/${name}`);
  }
  const validate = ajv.compile(schema('bom-1.6.SNAPSHOT.schema.json'));
  validate(sbom);
  return JSON.stringify(validate.errors ?? []);
}
