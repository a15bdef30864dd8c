# The sources are compiled once; the image holds the result and production packages alone.
FROM node:24-slim AS build
WORKDIR /build
COPY package.json package-lock.json tsconfig.json rolldown.config.ts ./
RUN npm ci
COPY src src
RUN npm run build && npm prune --omit=dev

FROM node:24-slim
ENV NODE_ENV=production
WORKDIR /app
COPY --from=build /build/package.json ./
COPY --from=build /build/node_modules node_modules
COPY --from=build /build/dist dist
COPY LICENSE CHANGELOG.md config.example.yaml config.schema.json ./
# The store's default folder, ./data: mount a volume there to keep it.
RUN mkdir -m 700 data && chown node:node data
USER node
VOLUME /app/data
EXPOSE 10922
# Asks this process alone, never the service. A port other than 10922 needs a check of its own.
HEALTHCHECK --interval=30s --timeout=3s --start-period=10s \
  CMD ["node", "-e", "fetch('http://127.0.0.1:10922/-/healthy').then(r => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["node", "dist/main.js"]
CMD ["serve", "--config", "/etc/delivery-watch/config.yaml"]
