-- a tool library is not always GDAL
ALTER TABLE calls RENAME COLUMN gdal_version TO tool_version;
