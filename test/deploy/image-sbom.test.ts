import { expect, it } from 'vitest';
import { imageSbomOf } from '../../scripts/image-sbom.ts';
import { sbomErrors } from '../support/sbom.ts';

const PACKAGED = JSON.stringify({
  bomFormat: 'CycloneDX',
  specVersion: '1.6',
  version: 1,
  metadata: { component: { type: 'application', 'bom-ref': 'pkg:npm/app@1.2.3', name: 'app', version: '1.2.3' } },
  components: [{ type: 'library', 'bom-ref': 'pkg:npm/zod@4.0.0', name: 'zod', version: '4.0.0' }],
  dependencies: [
    { ref: 'pkg:npm/app@1.2.3', dependsOn: ['pkg:npm/zod@4.0.0'] },
    { ref: 'pkg:npm/zod@4.0.0', dependsOn: [] },
  ],
});
const VERSIONS = { node: '24.1.0', uv: '1.52.1', v8: '13.6.2-node.53', modules: '137', tz: '2026c', nghttp3: '' };
const LIBC = `Package: libc6
Source: glibc
Version: 2.36-9+deb12u10
Architecture: amd64
Description: GNU C Library
 Package: not a field
`;
const LIBSTDCXX = `Package: libstdc++6
Source: gcc-12 (12.2.0-14)
Version: 1:12.2.0-14~deb12u1
Architecture: amd64
`;

const OS_RELEASE = {
  quoted: 'NAME="Debian GNU/Linux"\nVERSION_ID="12"\nID="debian"\n',
  plain: 'VERSION_ID=12\nID=debian',
};

const sbomOf = (control: string, osRelease = OS_RELEASE.quoted) =>
  JSON.parse(imageSbomOf(PACKAGED, VERSIONS, osRelease, control));
const refsOf = (sbom: { components: { 'bom-ref': string }[] }) => sbom.components.map(each => each['bom-ref']);

const GENERAL = [
  'pkg:npm/app@1.2.3',
  'pkg:npm/zod@4.0.0',
  'pkg:generic/node@24.1.0',
  'pkg:generic/uv@1.52.1',
  'pkg:generic/v8@13.6.2-node.53',
  'system',
];
const LIBC_REF = 'pkg:deb/debian/libc6@2.36-9%2Bdeb12u10?arch=amd64&distro=debian-12&upstream=glibc';

it("the image's bill of materials lists the package, Node.js with its libraries, and the base's Debian packages", () => {
  const sbom = sbomOf(`${LIBC}\n\n${LIBSTDCXX}`);
  expect(sbomErrors(sbom)).toBe('[]');
  const debian = [
    LIBC_REF,
    'pkg:deb/debian/libstdc%2B%2B6@1%3A12.2.0-14~deb12u1?arch=amd64&distro=debian-12&upstream=gcc-12%4012.2.0-14',
  ];
  expect(refsOf(sbom)).toEqual([...GENERAL, ...debian]);
  expect(sbom.metadata.component).toEqual({ type: 'container', name: 'app', version: '1.2.3', 'bom-ref': 'image' });
  expect(sbom.components).toContainEqual({
    type: 'library',
    name: 'libc6',
    version: '2.36-9+deb12u10',
    'bom-ref': LIBC_REF,
    purl: LIBC_REF,
  });
  const dependsOn = new Map(
    sbom.dependencies.map((each: { ref: string; dependsOn: string[] }) => [each.ref, each.dependsOn]),
  );
  expect(dependsOn.get('image')).toEqual(['pkg:npm/app@1.2.3', 'pkg:generic/node@24.1.0', 'system', ...debian]);
  expect(dependsOn.get('pkg:npm/app@1.2.3')).toEqual(['pkg:npm/zod@4.0.0']);
  expect(dependsOn.get('pkg:generic/node@24.1.0')).toEqual(['pkg:generic/uv@1.52.1', 'pkg:generic/v8@13.6.2-node.53']);
});

it("the image's bill of materials omits packages that dpkg's database lists as removed", () => {
  const control = [
    LIBC.replace('\n', '\nStatus: install ok installed\n'),
    `${LIBSTDCXX}Status: deinstall ok config-files\n`,
  ];
  expect(refsOf(sbomOf(control.join('\n'), OS_RELEASE.plain))).toEqual([...GENERAL, LIBC_REF]);
});

it("the image's bill of materials is not created if the base has no Debian packages", () => {
  expect(() => sbomOf('')).toThrow('no Debian packages');
});
