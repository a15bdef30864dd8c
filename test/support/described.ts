/** Validates responses against docs/openapi.json with an independent validator. */
import { readFileSync } from 'node:fs';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';

interface Schema {
  readonly $ref?: string;
  readonly type?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
}

interface Content {
  readonly content: Readonly<Record<string, { readonly schema: Schema }>>;
}

interface Operation {
  readonly parameters?: readonly { readonly name: string; readonly in: string }[];
  readonly requestBody?: Content;
  readonly responses: Readonly<Record<string, Content>>;
}

interface Document {
  readonly info: { readonly version: string };
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> };
}

export const DESCRIPTION = 'docs/openapi.json';
const NAMED = '#/components/schemas/';

export interface Described {
  readonly document: Document;
  /**
   * Validates a response against its operation and status. Throws an Error with the locations of all differences. `body`: the
   * request's body, which is validated too; pass it only for a valid request.
   */
  check(method: 'get' | 'post', path: string, response: Response, body?: object): Promise<unknown>;
  /** Returns described responses (`get /path 404`) and properties (`Component.list[].name`) that have not occurred yet. */
  missing(): { readonly responses: readonly string[]; readonly properties: readonly string[] };
}

export function createDescribed(): Described {
  const document = JSON.parse(readFileSync(DESCRIPTION, 'utf8')) as Document;
  const { schemas } = document.components;
  // Ignore OpenAPI keywords. Also ignore formats, because patterns cover them.
  const ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true }).addSchema(document, 'api');
  const validators = new Map<Schema, ValidateFunction>();
  const answered = new Set<string>();
  const seen = new Set<string>();

  function validator(schema: Schema): ValidateFunction {
    const text = JSON.stringify(schema).replaceAll(`"${NAMED}`, `"api${NAMED}`);
    const known = validators.get(schema) ?? ajv.compile(JSON.parse(text));
    validators.set(schema, known);
    return known;
  }

  /** Records which properties of a schema a value contains, except null properties. */
  function record(schema: Schema, value: unknown, place: string): void {
    if (value === null || value === undefined) return;
    if (schema.$ref) {
      const name = schema.$ref.replace(NAMED, '');
      record(schemas[name] ?? {}, value, name);
    }
    for (const variant of schema.anyOf ?? schema.oneOf ?? [])
      if (validator(variant)(value)) record(variant, value, place);
    if (Array.isArray(value)) for (const item of value) record(schema.items ?? {}, item, `${place}[]`);
    else if (typeof value === 'object') {
      for (const [key, inner] of Object.entries(value)) {
        const own = schema.properties?.[key];
        if (own && inner !== null) seen.add(`${place}.${key}`);
        if (own) record(own, inner, `${place}.${key}`);
      }
    }
  }

  function assertValid(schema: Schema, value: unknown, what: string): void {
    const validate = validator(schema);
    if (!validate(value))
      throw new Error(`${what}: ${ajv.errorsText(validate.errors)}\n${JSON.stringify(value).slice(0, 2000)}`);
    record(schema, value, '');
  }

  function propertiesOf(schema: Schema, place: string): string[] {
    const variants = [...(schema.anyOf ?? []), ...(schema.oneOf ?? [])].flatMap(variant =>
      propertiesOf(variant, place),
    );
    const items = schema.items ? propertiesOf(schema.items, `${place}[]`) : [];
    const valued = Object.entries(schema.properties ?? {}).filter(([, { type }]) => type !== 'null');
    const own = valued.flatMap(([key, inner]) => [`${place}.${key}`, ...propertiesOf(inner, `${place}.${key}`)]);
    return [...variants, ...items, ...own];
  }

  return {
    document,
    async check(method, path, response, body) {
      const operation = document.paths[path]?.[method];
      const content = operation?.responses[response.status]?.content;
      const [type = ''] = (response.headers.get('content-type') ?? '').split(';');
      const schema = content?.[type]?.schema;
      const text = await response.text();
      const what = `${method} ${path} ${response.status}`;
      if (!schema) throw new Error(`${what} of ${type} is not described: ${text.slice(0, 500)}`);
      answered.add(what);
      const bodySchema = operation?.requestBody?.content['application/json']?.schema;
      if (body && bodySchema) assertValid(bodySchema, body, `the body of ${what}`);
      if (type !== 'application/json') return text;
      const value: unknown = JSON.parse(text);
      assertValid(schema, value, what);
      return value;
    },
    missing() {
      const described = Object.entries(document.paths).flatMap(([path, operations]) =>
        Object.entries(operations).flatMap(([method, { responses }]) =>
          Object.keys(responses).map(status => `${method} ${path} ${status}`),
        ),
      );
      const properties = Object.entries(schemas).flatMap(([name, schema]) => propertiesOf(schema, name));
      return {
        responses: described.filter(each => !answered.has(each)),
        properties: [...new Set(properties)].filter(each => !seen.has(each)),
      };
    },
  };
}
